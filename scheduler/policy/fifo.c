/* fifo.c - strict order: the first pending job blocks all later jobs that could
 * use one of its nodes.
 *
 * Each job gets the smallest number of GPUs that it accepts (placement.h). The
 * policy skips only a job that could not run on the whole cluster, down nodes
 * included: such a job would block the queue without end.
 */
#include <math.h>

#include "scheduler/policy/planner.h"
#include "scheduler/policy/policy.h"
#include "scheduler/policy/preempt.h"

/* Pending jobs, by the nodes that they may use. The last line also takes the
 * masks for which no line is left, so it may block more jobs than necessary. */
struct line {
    uint64_t classes;
    const struct policy_job *head;
    int32_t n;
};

struct lines {
    struct line line[POLICY_CLASSES];
    size_t n;
};

static void join(struct lines *l, const struct policy_job *job, uint64_t reach)
{
    size_t i = 0;
    while (i < l->n && l->line[i].classes != reach)
        i++;
    if (i == POLICY_CLASSES) {
        i--;
        l->line[i].classes |= reach;
    } else if (i == l->n) {
        l->line[l->n++] = (struct line){.classes = reach, .head = job};
    }
    l->line[i].n++;
}

/* The first pending job that waits for a node that this job could use as well;
 * NULL: none. */
static const struct policy_job *ahead(const struct lines *l, uint64_t reach,
                                      int32_t *ret_n)
{
    const struct policy_job *head = NULL;

    *ret_n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct line *line = &l->line[i];
        if ((line->classes & reach) == 0)
            continue;
        *ret_n += line->n;
        /* Both point into one array, which is in order. */
        head = !head || line->head < head ? line->head : head;
    }
    return head;
}

/* Starts the job on the first of its sets of nodes that has room and that no
 * earlier job waits for.
 * out  ret_reservation  the job for which a set with room is reserved; else
 *      unchanged */
static bool start(struct plan *p, const struct lines *l,
                  const struct policy_job *job,
                  const struct plan_reservation **ret_reservation)
{
    size_t n_sets = job->n_sets > 0 ? job->n_sets : 1;
    struct place place;
    int32_t n_ahead;

    for (size_t i = 0; i < n_sets; i++) {
        struct policy_job there = *job;
        if (job->n_sets > 0) {
            there.classes &= job->sets[i];
            there.n_sets = 0;
        }
        if (there.classes == 0 || ahead(l, plan_reach(p, &there), &n_ahead) ||
            !plan_find(p, &there, &place))
            continue;
        const struct plan_reservation *reservation =
            plan_start(p, &there, place);
        if (!reservation)
            return true;
        *ret_reservation = reservation;
    }
    return false;
}

static int fifo_plan(const struct policy_view *view,
                     struct policy_decision *decisions, size_t cap,
                     size_t *ret_n, struct error *err)
{
    struct plan p;
    struct lines lines = {.n = 0};

    if (plan_begin(&p, view, decisions, cap, err) < 0)
        return -1;
    for (size_t i = 0; i < view->n_jobs; i++) {
        const struct policy_job *job = &view->jobs[i];
        const struct plan_reservation *reservation = NULL;
        const struct policy_job *head;
        int32_t n_ahead;
        if (policy_is_resizing(job) && !plan_hold(&p, job))
            join(&lines, job, plan_reach(&p, job));
        if (job->state != JOB_QUEUED)
            continue;
        if (!plan_ever(&p, job, true)) {
            plan_never_fits(&p, job);
            continue;
        }
        if (start(&p, &lines, job, &reservation))
            continue;
        uint64_t reach = plan_reach(&p, job);
        head = ahead(&lines, reach, &n_ahead);
        if (head)
            plan_behind(&p, job, head, n_ahead);
        else if (preempt_for(&p, job, reservation ? reservation->job : NULL,
                             reservation ? reservation->at_s : (double)NAN))
            continue; /* the plan reserves its place */
        else if (reservation)
            plan_reserved(&p, job, reservation->job, reservation->at_s);
        else
            plan_lacks_gpus(&p, job, NAN);
        join(&lines, job, reach);
    }
    *ret_n = p.n;
    plan_end(&p);
    return 0;
}

const struct policy policy_fifo = {
    .name = "fifo",
    .summary = "strictly by priority and arrival; the first pending job blocks "
               "the rest",
    .plan = fifo_plan,
};
