/* sweep_cap.c - max_parallel: how many tasks of a sweep may run at once.
 *
 * The tasks beyond it leave the policy's view before each plan. Tasks start in
 * the policy's order, and a task that is pending for GPUs keeps its turn.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/engine/engine_internal.h"

size_t eng_cap_sweeps(struct engine *e, struct policy_job *jobs, size_t n)
{
    size_t kept = 0;
    char reason[JOB_REASON_CAP];

    for (size_t i = 0; i < n; i++) {
        const struct job *job = &eng_find(e, jobs[i].id)->job;
        if (job->max_parallel > 0)
            eng_find(e, job->sweep)->n_live = 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct job *job = &eng_find(e, jobs[i].id)->job;
        if (job->max_parallel > 0 && job_state_is_live(job->state))
            eng_find(e, job->sweep)->n_live++;
    }
    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        const struct job *job = &rec->job;
        if (job->max_parallel > 0 && job->state == JOB_QUEUED &&
            eng_find(e, job->sweep)->n_live++ >= job->max_parallel) {
            (void)snprintf(reason, sizeof(reason),
                           "SweepLimit: max_parallel %" PRId32 " of %" PRId32
                           " jobs",
                           job->max_parallel, job->n_tasks);
            rec->job.start_estimate_s = NAN;
            (void)eng_set_reason(e, rec, reason);
            continue;
        }
        jobs[kept++] = jobs[i];
    }
    return kept;
}
