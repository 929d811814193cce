/* cluster_lost_slurm.c - decide about an attempt that Slurm does not show any
 * more.
 *
 * The allocator examines the evidence in this order: the exit file, with the
 * message that the batch step received; Slurm's accounting; how long slurmctld
 * has run. A slurmctld that was killed has forgotten what it had not saved; one
 * that was not killed only forgets jobs that have ended. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "slurm/cluster/cluster.h"

static const double RETRY_S = 5;
enum { READS_CAP = 10 }; /* failed reads of a file, or queries of accounting */
/* Difference between slurmctld's clock and ours: if they are synchronized, and
 * if one may be wrong. */
enum { CLOCKS_NEAR_S = 2, CLOCKS_APART_S = 60 };

/* slurmctld was started after the attempt was requested, so it may have lost
 * the attempt. */
static bool may_have_lost(const struct cluster_attempt *a,
                          const struct helper_news *n)
{
    return n->booted > 0 && n->booted >= a->req.since - CLOCKS_NEAR_S;
}

static bool cannot_have_lost(const struct cluster_attempt *a,
                             const struct helper_news *n)
{
    return n->booted > 0 && n->booted < a->req.since - CLOCKS_APART_S;
}

static void end_claimed(struct cluster *c, struct cluster_attempt *a,
                        const char *which, const struct helper_news *n)
{
    const char *nor = n->has_accounting ? ", nor does its accounting" : "";
    if (may_have_lost(a, n))
        cluster_end_forgotten(c, a,
                              "slurmctld was restarted, and knows no job %s "
                              "any more%s; it left no exit file",
                              which, nor);
    else
        cluster_end_lost(c, a,
                         "Slurm knows no job %s any more%s, and it left no "
                         "exit file",
                         which, nor);
}

/* Slurm does not have it. If it never ran, submit it (again). */
void cluster_absent(struct cluster *c, struct cluster_attempt *a,
                    const struct helper_news *n)
{
    char which[32] = "with its tag";
    if (a->slurm_id > 0)
        (void)snprintf(which, sizeof(which), "%" PRIu32, a->slurm_id);
    if (a->is_claimed) {
        end_claimed(c, a, which, n);
    } else if (a->slurm_id > 0 && !a->is_released && !a->must_not_start &&
               cannot_have_lost(a, n)) {
        cluster_end_unseen(c, a);
    } else if (a->is_released || a->must_not_start) {
        cluster_end_unstarted(c, a);
    } else {
        if (a->slurm_id > 0)
            cluster_wait(c, a, ERR_BUSY,
                         "Slurm knows no job %s any more: submitted again",
                         which);
        a->was_lost = a->was_lost || a->slurm_id > 0;
        a->phase = CLUSTER_TO_SUBMIT;
        a->slurm_id = 0;
        a->has_run = a->was_granted = a->may_have_run = false;
        a->retry_s = -INFINITY;
    }
}

bool cluster_may_pass(const struct error *why)
{
    return why->code == ERR_UNAVAIL || why->code == ERR_BUSY ||
           why->code == ERR_TIMEOUT || why->code == ERR_NOMEM ||
           why->code == ERR_IO || why->code == ERR_INTERNAL;
}

/* True if the file cannot be read now, but perhaps later. */
static bool reads_again(struct cluster *c, struct cluster_attempt *a,
                        const struct helper_news *n)
{
    if (n->is_ok || !cluster_may_pass(&n->why) || ++a->reads >= READS_CAP)
        return false;
    a->retry_s = cluster_now(c) + RETRY_S;
    return true;
}

/* No other evidence is left: query accounting. */
static void recall(struct cluster *c, struct cluster_attempt *a)
{
    a->reads = 0;
    a->retry_s = -INFINITY;
    if (a->is_released || a->must_not_start)
        cluster_absent(c, a, &(struct helper_news){.booted = 0});
    else
        a->wants_recall = true;
}

/* The file alone determines the end and its cause. */
static bool is_clear(const struct cluster_attempt *a,
                     const struct helper_news *file)
{
    return file->told[0] || a->is_released ||
           (file->exit_code == 0 && file->signal == 0);
}

static void has_left_file(struct cluster *c, struct cluster_attempt *a,
                          const struct helper_news *file)
{
    if (is_clear(a, file)) {
        cluster_end_file(c, a, file);
        return;
    }
    recall(c, a);
    a->has_file = true;
    a->file_code = file->exit_code;
    a->file_signal = file->signal;
    a->file_id = file->slurm_id;
    a->file_ended_ms = file->ended_ms;
}

void cluster_recalled(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *n)
{
    const struct helper_news file = {.is_ok = true,
                                     .exit_code = a->file_code,
                                     .signal = a->file_signal,
                                     .slurm_id = a->file_id,
                                     .ended_ms = a->file_ended_ms};
    if (a->phase != CLUSTER_UNSURE || !a->wants_recall)
        return;
    if (reads_again(c, a, n)) {
        cluster_wait(c, a, ERR_BUSY, "SlurmUnknown: %s", n->why.msg);
        return;
    }
    a->wants_recall = false;
    if (n->is_ok && n->job.state[0]) {
        cluster_end_recalled(c, a, n, a->has_file ? &file : NULL);
    } else if (a->has_file) {
        a->was_lost = a->was_lost || may_have_lost(a, n);
        cluster_end_file(c, a, &file);
    } else {
        cluster_absent(c, a, n);
    }
}

/* Only one submission of an attempt can have claimed it: then the id is enough.
 * Before a claim the last submission counts; Slurm may have given its id to an
 * earlier one, too.
 *
 * in  slurm_id  0: any */
static bool is_of_it(const struct cluster_attempt *a,
                     const struct helper_news *file, uint32_t slurm_id)
{
    bool has_word = file->told[0] || !file->is_ending;
    return file->is_ok && has_word && (a->is_claimed || !file->is_other) &&
           (file->slurm_id == 0 || slurm_id == 0 || file->slurm_id == slurm_id);
}

void cluster_exit_read(struct cluster *c, struct cluster_attempt *a,
                       const struct helper_news *n)
{
    if (reads_again(c, a, n))
        return;
    a->was_lost = a->was_lost || (n->is_ok && n->is_other);
    if (a->phase == CLUSTER_READING) {
        cluster_end_over(c, a, is_of_it(a, n, a->slurm_id) ? n : NULL);
    } else if (a->phase == CLUSTER_UNSURE && a->wants_exit) {
        a->wants_exit = false;
        bool is_its = is_of_it(a, n, a->claimed_id);
        if (is_its && (!n->is_ending || a->is_gone))
            has_left_file(c, a, n);
        else if (a->is_gone)
            recall(c, a);
    }
}
