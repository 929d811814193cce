/* repeat_policy.c - see repeat_policy.h. */
#include "scheduler/sim/repeat_policy.h"

#include <math.h>
#include <stdlib.h>

static bool waits(const struct policy_job *job)
{
    return job->state == JOB_QUEUED && job->priority == REPEAT_WAITS;
}

static int repeat_plan(const struct policy_view *view,
                       struct policy_decision *decisions, size_t cap,
                       size_t *ret_n, struct error *err)
{
    struct policy_job *jobs = calloc(view->n_jobs + 1, sizeof(*jobs));
    struct policy_view due = *view;
    size_t n = 0;

    if (!jobs)
        return error_set(err, ERR_NOMEM, "plan");
    due.jobs = jobs;
    due.n_jobs = 0;
    for (size_t i = 0; i < view->n_jobs; i++)
        if (!waits(&view->jobs[i]))
            jobs[due.n_jobs++] = view->jobs[i];
    int rc = policy_backfill.plan(&due, decisions, cap, &n, err);
    free(jobs);
    for (size_t i = 0; rc == 0 && i < view->n_jobs; i++) {
        if (!waits(&view->jobs[i]))
            continue;
        if (n == cap)
            return error_set(err, ERR_LIMIT, "over %zu decisions", cap);
        decisions[n++] = (struct policy_decision){
            .act = POLICY_WAIT,
            .id = view->jobs[i].id,
            .start_s = NAN,
            .reason = "Repeat: until its recorded start"};
    }
    *ret_n = n;
    return rc;
}

const struct policy policy_repeat = {
    .name = "repeat",
    .summary = "the recorded attempts, at their sizes",
    .plan = repeat_plan,
};
