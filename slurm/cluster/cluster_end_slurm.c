/* cluster_end_slurm.c - decide how an attempt ended in Slurm.
 *
 * The batch step writes the exit file, and it saw the ranks end; Slurm only
 * sees the batch step. So the file decides code and signal, and Slurm's state
 * decides the cause. A job that Slurm itself ended - a node failure, a
 * preemption - is a loss, whatever the file says: srun exits with 0 when a node
 * of its step is set down. */
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "slurm/cluster/cluster.h"

static void end(struct cluster *c, struct cluster_attempt *a,
                const struct alloc_note *note)
{
    a->phase = CLUSTER_ENDED;
    a->end = *note;
    a->end.job = a->req.job;
    a->end.attempt = a->req.attempt;
    if (a->end.ended_ms == 0)
        a->end.ended_ms = 1000 * a->seen.ended;
    a->completing_s = NAN;
    a->stray_s = -INFINITY;
    a->signals = 0;
    c->n_ended++;
    free(a->strings);
    a->strings = NULL;
    a->req = (struct alloc_req){
        .job = a->req.job, .attempt = a->req.attempt, .uid = a->req.uid};
    cluster_say(c, a, CLUSTER_SAY_END);
}

/* in  as  the cause: ended_by, is_forgotten */
static void end_lost(struct cluster *c, struct cluster_attempt *a,
                     struct alloc_note as, const char *why)
{
    as.kind = ALLOC_LOST;
    (void)error_set(&as.why, ERR_EXTERN, "%s", why);
    end(c, a, &as);
}

void cluster_end_forgotten(struct cluster *c, struct cluster_attempt *a,
                           const char *fmt, ...)
{
    char why[sizeof(a->end.why.msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    end_lost(c, a, (struct alloc_note){.is_forgotten = true}, why);
}

void cluster_end_lost(struct cluster *c, struct cluster_attempt *a,
                      const char *fmt, ...)
{
    char why[sizeof(a->end.why.msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    end_lost(c, a, (struct alloc_note){.ended_by = ALLOC_BY_ITSELF}, why);
}

void cluster_end_preempted(struct cluster *c, struct cluster_attempt *a,
                           const char *fmt, ...)
{
    char why[sizeof(a->end.why.msg)];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(why, sizeof(why), fmt, ap);
    va_end(ap);
    end_lost(c, a, (struct alloc_note){.ended_by = ALLOC_BY_PREEMPTION}, why);
}

void cluster_end_unstarted(struct cluster *c, struct cluster_attempt *a)
{
    struct alloc_note note = {.kind = ALLOC_EXITED, .signal = SIGTERM};
    end(c, a, &note);
}

void cluster_end_refused(struct cluster *c, struct cluster_attempt *a,
                         const struct error *why, bool is_of_size)
{
    struct alloc_note note = {
        .kind = ALLOC_REFUSED, .why = *why, .is_of_size = is_of_size};
    end(c, a, &note);
    a->is_refused = true;
}

/* The other job is killed, like every duplicate that appears after the end; a
 * caller that rejected the first end receives this one. */
void cluster_end_instead(struct cluster *c, struct cluster_attempt *a,
                         uint32_t slurm_id)
{
    a->end = (struct alloc_note){
        .kind = ALLOC_LOST, .job = a->req.job, .attempt = a->req.attempt};
    (void)error_set(&a->end.why, ERR_EXTERN,
                    "Slurm job %" PRIu32 " claimed it after job %" PRIu32
                    " had ended",
                    slurm_id, a->slurm_id);
    a->slurm_id = slurm_id;
    cluster_say(c, a, CLUSTER_SAY_END);
}

/* Sets code and signal as wait(2) does: a signal, or else a code. */
static void set_status(struct alloc_note *note, int32_t code, int32_t signo,
                       int32_t else_signo)
{
    bool is_signal = signo > 0 && signo <= 64;
    if (!is_signal && code == 0)
        signo = else_signo;
    else if (!is_signal)
        signo = 0;
    note->signal = signo;
    note->exit_code = signo > 0 ? 0 : code & 255;
}

enum verdict {
    BY_ITSELF,
    BY_LIMIT,
    BY_SOMEBODY,
    BY_MEMORY,
    BROKEN,     /* lost with a node, whatever the file says */
    TAKEN_AWAY, /* lost to another job, whatever the file says */
    UNCLEAR,    /* lost, if there is no file */
};

/* in  state  Slurm's word, or one of end_cause.h */
static enum verdict verdict_on(const char *state, const char **ret_what)
{
    static const struct {
        const char *word;
        enum verdict verdict;
        const char *what;
    } states[] = {
        {"COMPLETED", BY_ITSELF, "has completed"},
        {"TIMEOUT", BY_LIMIT, "reached its time limit"},
        {"DEADLINE", BY_LIMIT, "reached its deadline"},
        {"CANCELLED", BY_SOMEBODY, "was cancelled"},
        {"OUT_OF_MEMORY", BY_MEMORY, "ran out of memory"},
        {"NODE_FAIL", BROKEN, "lost a node"},
        {"BOOT_FAIL", BROKEN, "got a node that did not boot"},
        {"PREEMPTED", TAKEN_AWAY, "was preempted"},
        {"REQUEUED", TAKEN_AWAY, "was requeued"},
        {"FAILED", UNCLEAR, "could not be launched"},
        {"COMPLETING", UNCLEAR, "does not complete"},
    };
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        if (strcmp(states[i].word, state) == 0) {
            *ret_what = states[i].what;
            return states[i].verdict;
        }
    }
    *ret_what = "has ended";
    return UNCLEAR;
}

/* Slurm's exit code for "the batch step could not be started": its directory
 * does not exist there, or its output cannot be opened. */
enum { SLURM_NO_LAUNCH = 53 };

static void end_lost_as(struct cluster *c, struct cluster_attempt *a,
                        enum verdict v, const char *what)
{
    const char *reason = a->seen.reason;
    bool has_reason = reason[0] && strcmp(reason, "None") != 0;
    (v == TAKEN_AWAY ? cluster_end_preempted : cluster_end_lost)(
        c, a, "Slurm job %" PRIu32 " %s%s%s%s%s%s", a->slurm_id, what,
        a->place[0] ? " on " : "", a->place, has_reason ? " (" : "",
        has_reason ? reason : "", has_reason ? ")" : "");
}

/* A node that cannot launch a job cancels it if the job must not be requeued;
 * Slurm then shows it as cancelled by a person. A job that a person cancels has
 * begun: its batch step lives long enough to write how it ended, or a worker
 * has claimed the lease. */
static bool is_unlaunched(const struct cluster_attempt *a, enum verdict v)
{
    return v == BY_SOMEBODY && a->has_run && !a->is_claimed && !a->is_released;
}

/* Before a claim nothing has run: it is Slurm's loss, whatever Slurm says of
 * the batch step. This includes a release by the engine because no worker
 * claimed; for its other releases the engine ignores the kind of end. */
static bool is_slurms_loss(const struct cluster_attempt *a)
{
    return a->was_lost && !a->is_claimed;
}

static void end_slurms_loss(struct cluster *c, struct cluster_attempt *a,
                            const char *what)
{
    cluster_end_forgotten(
        c, a, "slurmctld lost the attempt: Slurm job %" PRIu32 " %s",
        a->slurm_id, what);
}

static const char unclaimed[] = "ended before a worker claimed it";

static void say_cancelled(const struct cluster_attempt *a, bool is_recalled,
                          struct error *ret)
{
    const char *by = is_recalled ? a->seen.reason : "";
    (void)error_set(ret, ERR_EXTERN, "cancelled in Slurm%s%s%s",
                    by[0] ? " " : "", by,
                    is_recalled ? ", its accounting reports; slurmctld has "
                                  "forgotten the job"
                                : "");
}

static void end_over(struct cluster *c, struct cluster_attempt *a,
                     const struct helper_news *file, bool is_recalled)
{
    const char *what;
    enum verdict v = verdict_on(a->seen.state, &what);
    struct alloc_note note = {.kind = ALLOC_EXITED};
    bool has_begun = file; /* false: it received SIGTERM at most */
    bool is_second = !file && cluster_was_fenced(&a->seen);
    if (file && file->is_ending)
        file = NULL;
    int32_t code = file ? file->exit_code : a->seen.exit_code;
    int32_t signo = file ? file->signal : a->seen.signal;
    bool says_nothing =
        !file && (signo == SLURM_NO_LAUNCH || (code == 0 && signo == 0));
    bool was_launched = has_begun || !is_unlaunched(a, v);
    if (!was_launched)
        what = "could not be launched";
    /* A person cancelled this very submission. */
    bool is_cancelled = v == BY_SOMEBODY && was_launched && !a->is_released;
    if (is_second) {
        end_slurms_loss(c, a, "found the batch step of an earlier submission");
        return;
    }
    if (is_slurms_loss(a) && !is_cancelled) {
        end_slurms_loss(c, a, was_launched ? unclaimed : what);
        return;
    }
    if (v == TAKEN_AWAY || v == BROKEN || !was_launched ||
        (v == UNCLEAR && says_nothing)) {
        end_lost_as(c, a, v, what);
        return;
    }
    if (v == BY_LIMIT)
        note.ended_by = ALLOC_BY_LIMIT;
    if (v == BY_SOMEBODY && !a->is_released) {
        note.ended_by = ALLOC_BY_OTHER;
        say_cancelled(a, is_recalled, &note.why);
    }
    int32_t otherwise = 0;
    if (!file && (v == BY_LIMIT || v == BY_SOMEBODY))
        otherwise = SIGTERM;
    else if (!file && v == BY_MEMORY)
        otherwise = SIGKILL;
    if (v == BY_MEMORY && !file)
        code = signo = 0; /* 0:125 is not a signal */
    note.ended_ms = file ? file->ended_ms : 0;
    set_status(&note, code, signo, otherwise);
    end(c, a, &note);
}

/* The message that the batch step received is then the only evidence of the
 * cause. A cause that we do not know is not retried: a person may have wanted
 * the end, and can submit the job again. */
static void end_told(struct cluster *c, struct cluster_attempt *a,
                     const struct helper_news *file)
{
    const char *what;
    struct alloc_note note = {.kind = ALLOC_EXITED};
    enum verdict v = verdict_on(file->told, &what);
    if (v == TAKEN_AWAY || v == BROKEN) {
        (v == TAKEN_AWAY ? cluster_end_preempted : cluster_end_lost)(
            c, a,
            "Slurm job %" PRIu32 " %s, its batch step reports; Slurm has "
            "forgotten it",
            a->slurm_id, what);
        return;
    }
    note.ended_by = v == BY_LIMIT ? ALLOC_BY_LIMIT : ALLOC_BY_OTHER;
    if (v == BY_SOMEBODY)
        (void)error_set(&note.why, ERR_EXTERN,
                        "cancelled in Slurm, its batch step reports; Slurm "
                        "has forgotten job %" PRIu32,
                        a->slurm_id);
    else if (v != BY_LIMIT)
        (void)error_set(&note.why, ERR_EXTERN,
                        "ended in Slurm, its batch step reports without a "
                        "cause; Slurm has forgotten job %" PRIu32,
                        a->slurm_id);
    set_status(&note, file->exit_code, file->signal, SIGTERM);
    note.ended_ms = file->ended_ms;
    end(c, a, &note);
}

void cluster_end_file(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file)
{
    struct alloc_note note = {.kind = ALLOC_EXITED};
    if (a->slurm_id == 0)
        a->slurm_id = file->slurm_id;
    if (file->told[0] && !a->is_released) {
        end_told(c, a, file);
        return;
    }
    if (is_slurms_loss(a)) {
        end_slurms_loss(c, a, unclaimed);
        return;
    }
    set_status(&note, file->exit_code, file->signal, 0);
    note.ended_ms = file->ended_ms;
    end(c, a, &note);
}

void cluster_end_over(struct cluster *c, struct cluster_attempt *a,
                      const struct helper_news *file)
{
    end_over(c, a, file, false);
}

void cluster_end_recalled(struct cluster *c, struct cluster_attempt *a,
                          const struct helper_news *n,
                          const struct helper_news *file)
{
    a->slurm_id = n->slurm_id;
    a->seen = n->job;
    a->seen.exit_code = n->exit_code;
    a->seen.signal = n->signal;
    end_over(c, a, file, true);
}

void cluster_end_unseen(struct cluster *c, struct cluster_attempt *a)
{
    struct alloc_note note = {
        .kind = ALLOC_EXITED, .signal = SIGTERM, .ended_by = ALLOC_BY_OTHER};
    (void)error_set(&note.why, ERR_EXTERN,
                    "ended in Slurm before it started: slurmctld has "
                    "forgotten job %" PRIu32 " and was not restarted since",
                    a->slurm_id);
    end(c, a, &note);
}
