/* fifo.c - strictly in order: the first job that has to wait holds up all
 * that follow.
 *
 * Each job gets the smallest number of GPUs that it accepts (place.h). Only
 * a job that could not run on the whole cluster, down nodes included, is
 * stepped over: waiting for it would be waiting for ever.
 */
#include <math.h>

#include "scheduler/policy/plan.h"
#include "scheduler/policy/policy.h"

static int fifo_plan(const struct policy_view *view, struct policy_wish *wishes,
                     size_t cap, size_t *ret_n, struct error *err)
{
    struct plan p;
    const struct policy_job *head = NULL; /* the first that waits */
    int32_t n_waiting = 0;

    if (plan_begin(&p, view, wishes, cap, err) < 0)
        return -1;
    for (size_t i = 0; i < view->n_jobs; i++) {
        const struct policy_job *job = &view->jobs[i];
        struct place place;
        if (job->state != JOB_QUEUED)
            continue;
        if (!place_ever(p.nodes, view->n_nodes, job, true)) {
            plan_never_fits(&p, job);
            continue;
        }
        if (head)
            plan_behind(&p, job, head, n_waiting);
        else if (place_find(p.nodes, view->n_nodes, job, &place))
            plan_start(&p, job, place);
        else
            plan_lacks_gpus(&p, job, NAN);
        if (!head && wishes[p.n - 1].act == POLICY_WAIT)
            head = job;
        n_waiting += head != NULL;
    }
    *ret_n = p.n;
    plan_end(&p);
    return 0;
}

const struct policy policy_fifo = {
    .name = "fifo",
    .summary = "strictly by priority and arrival; the first that waits "
               "holds up the rest",
    .plan = fifo_plan,
};
