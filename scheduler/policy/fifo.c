/* fifo.c - strictly in order: the first job that has to wait holds up all
 * that follow, if they could use one of its nodes.
 *
 * Each job gets the smallest number of GPUs that it accepts (place.h). Only
 * a job that could not run on the whole cluster, down nodes included, is
 * stepped over: waiting for it would be waiting for ever.
 */
#include <math.h>

#include "scheduler/policy/plan.h"
#include "scheduler/policy/policy.h"
#include "scheduler/policy/preempt.h"

/* Jobs that wait, by what they may use. The last line takes the masks for
 * which there is none left, too: it may then hold up more than it has to. */
struct line {
    uint64_t classes;
    const struct policy_job *head;
    int32_t n;
};

struct lines {
    struct line line[POLICY_CLASSES];
    size_t n;
};

static void join(struct lines *l, const struct policy_job *job)
{
    size_t i = 0;
    while (i < l->n && l->line[i].classes != job->classes)
        i++;
    if (i == POLICY_CLASSES) {
        i--;
        l->line[i].classes |= job->classes;
    } else if (i == l->n) {
        l->line[l->n++] = (struct line){.classes = job->classes, .head = job};
    }
    l->line[i].n++;
}

/* The first that waits for a node that the job could use, too; NULL: none. */
static const struct policy_job *ahead(const struct lines *l,
                                      const struct policy_job *job,
                                      int32_t *ret_n)
{
    const struct policy_job *head = NULL;

    *ret_n = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct line *line = &l->line[i];
        if ((line->classes & job->classes) == 0)
            continue;
        *ret_n += line->n;
        /* Both are of one array, and that is in order. */
        head = !head || line->head < head ? line->head : head;
    }
    return head;
}

static int fifo_plan(const struct policy_view *view, struct policy_wish *wishes,
                     size_t cap, size_t *ret_n, struct error *err)
{
    struct plan p;
    struct lines lines = {.n = 0};

    if (plan_begin(&p, view, wishes, cap, err) < 0)
        return -1;
    for (size_t i = 0; i < view->n_jobs; i++) {
        const struct policy_job *job = &view->jobs[i];
        const struct plan_owed *owed = NULL;
        const struct policy_job *head;
        struct place place;
        int32_t n_ahead;
        if (job->state != JOB_QUEUED)
            continue;
        if (!plan_ever(&p, job, true)) {
            plan_never_fits(&p, job);
            continue;
        }
        head = ahead(&lines, job, &n_ahead);
        if (head)
            plan_behind(&p, job, head, n_ahead);
        else if (plan_find(&p, job, &place) &&
                 !(owed = plan_start(&p, job, place)))
            continue;
        else if (preempt_for(&p, job))
            continue; /* its place is kept */
        else if (owed)
            plan_reserved(&p, job, owed->job, owed->at_s);
        else
            plan_lacks_gpus(&p, job, NAN);
        join(&lines, job);
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
