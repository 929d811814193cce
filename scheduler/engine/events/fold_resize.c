/* fold_resize.c - see fold_resize.h. */
#include "scheduler/engine/events/fold_resize.h"

#include <math.h>

/* The first word to stop counts: the attempt may have to go for another job
 * already. */
void resize_asked(struct job *job, double at_s, const struct detail *d,
                  bool is_live)
{
    struct job_resize *r = &job->resize;

    r->gpus = d->to_gpus;
    r->nodes = d->to_nodes > 0 ? d->to_nodes : 0;
    r->planned_gpus = r->planned_nodes = 0;
    if (r->gpus == 0) {
        r->told_s = r->ended_s = NAN;
    } else if (is_live) {
        r->from = job->gpus;
        r->told_s = job->requeue_asked && !isnan(r->told_s) ? r->told_s : at_s;
        r->ended_s = NAN;
    }
}

void resize_planned(struct job_resize *r)
{
    r->planned_gpus = r->gpus;
    r->planned_nodes = r->nodes;
    r->gpus = r->nodes = 0;
    r->checkpoint_s = r->allocator_s = r->start_s = NAN;
}

/* An attempt that nobody has claimed leaves its size to the next one. */
void resize_requeued(struct job *job, double ended_s)
{
    struct job_resize *r = &job->resize;

    if (isnan(job->claim_s) && r->gpus == 0) {
        r->gpus = r->planned_gpus;
        r->nodes = r->planned_nodes;
    }
    r->planned_gpus = r->planned_nodes = 0;
    if (!isnan(r->told_s) && isnan(r->ended_s))
        r->ended_s = fmax(r->told_s, ended_s);
}

void resize_ran(struct job *job)
{
    struct job_resize *r = &job->resize;

    if (isnan(r->told_s) || isnan(r->ended_s))
        return;
    r->cost_from = r->from;
    r->checkpoint_s = r->ended_s - r->told_s;
    r->allocator_s = fmax(0, job->start_s - r->ended_s);
    r->start_s = fmax(0, job->run_s - fmax(job->start_s, r->ended_s));
    r->told_s = r->ended_s = NAN;
}

void resize_over(struct job_resize *r)
{
    r->gpus = r->nodes = 0;
}
