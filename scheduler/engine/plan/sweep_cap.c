/* sweep_cap.c - max_parallel: how many tasks of a sweep may run at once.
 *
 * The tasks beyond it leave the policy's view before each plan. Tasks start in
 * the policy's order, and a task that is pending for GPUs keeps its turn.
 *
 * The turn of a task comes when fewer than max_parallel of those before it have
 * not ended. It follows from when they ended, so a new daemon finds the same. A
 * task that comes before its turn, for its priority or because another one
 * waits for its next attempt, counts from then on; to a new daemon, from its
 * start.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"

/* The turn of a task that is in the view for the first time; find_turns() finds
 * it. */
static const double WANTED_S = INFINITY;

/* The latest ends of tasks; INFINITY: it has not ended. */
struct ends {
    double *s; /* owned; [n], ascending */
    size_t n, cap;
};

static void add_end(struct ends *io, double end_s)
{
    size_t i = io->n;

    if (i < io->cap) {
        io->n++;
    } else if (end_s <= io->s[0]) {
        return;
    } else {
        memmove(io->s, io->s + 1, (io->cap - 1) * sizeof(*io->s));
        i--;
    }
    for (; i > 0 && io->s[i - 1] > end_s; i--)
        io->s[i] = io->s[i - 1];
    io->s[i] = end_s;
}

static double turn_of(const struct job *job, const struct ends *before,
                      double wall_s)
{
    if (before->n < before->cap)
        return -INFINITY;
    if (isfinite(before->s[0]))
        return before->s[0];
    return isnan(job->first_claim_s) ? wall_s : job->first_claim_s;
}

/* Of all tasks of the sweep that are WANTED_S. Without memory they count from
 * the submit, and the next view tries again. */
static void find_turns(struct engine *e, const struct job *of, double wall_s)
{
    size_t cap = (size_t)(of->max_parallel < of->n_tasks ? of->max_parallel
                                                         : of->n_tasks);
    struct ends ends = {.s = malloc(cap * sizeof(*ends.s)), .cap = cap};

    for (int32_t i = 0; i < of->n_tasks; i++) {
        struct job_record *rec = eng_find(e, of->sweep + (uint64_t)i);
        bool is_over = !rec || job_state_is_final(rec->job.state);
        if (rec && rec->turn_s >= WANTED_S)
            rec->turn_s =
                ends.s ? turn_of(&rec->job, &ends, wall_s) : (double)NAN;
        if (ends.s && rec)
            add_end(&ends, is_over ? rec->job.end_s : INFINITY);
    }
    free(ends.s);
}

static void set_reason(struct engine *e, struct job_record *rec)
{
    char reason[JOB_REASON_CAP];

    (void)snprintf(reason, sizeof(reason),
                   "SweepLimit: max_parallel %" PRId32 " of %" PRId32 " jobs",
                   rec->job.max_parallel, rec->job.n_tasks);
    rec->job.start_estimate_s = NAN;
    (void)eng_set_reason(e, rec, reason);
}

static double eligible_s(const struct policy_view *v,
                         const struct job_record *rec)
{
    return v->now_s - (v->wall_s - job_record_eligible_s(rec));
}

size_t eng_cap_sweeps(struct engine *e, const struct policy_view *v,
                      struct policy_job *jobs)
{
    size_t kept = 0, n_wanted = 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct job *job = &eng_find(e, jobs[i].id)->job;
        if (job->max_parallel > 0)
            eng_find(e, job->sweep)->n_live = 0;
    }
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct job *job = &eng_find(e, jobs[i].id)->job;
        if (job->max_parallel > 0 && job_state_is_live(job->state))
            eng_find(e, job->sweep)->n_live++;
    }
    for (size_t i = 0; i < v->n_jobs; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        const struct job *job = &rec->job;
        if (job->max_parallel > 0 && job->state == JOB_QUEUED &&
            eng_find(e, job->sweep)->n_live++ >= job->max_parallel) {
            rec->turn_s = NAN;
            set_reason(e, rec);
            continue;
        }
        if (job->max_parallel > 0 && isnan(rec->turn_s)) {
            rec->turn_s = WANTED_S;
            n_wanted++;
        } else if (job->max_parallel > 0) {
            jobs[i].eligible_s = eligible_s(v, rec);
        }
        jobs[kept++] = jobs[i];
    }
    for (size_t i = 0; n_wanted > 0 && i < kept; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        if (rec->job.max_parallel <= 0)
            continue;
        if (rec->turn_s >= WANTED_S)
            find_turns(e, &rec->job, v->wall_s);
        jobs[i].eligible_s = eligible_s(v, rec);
    }
    return kept;
}
