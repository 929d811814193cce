/* fold_resize.c - see fold_resize.h. */
#include "scheduler/engine/events/fold_resize.h"

#include <math.h>

/* Other sizes that were not granted keep their time; the same size, or one
 * beyond it, waits twice as long as the last time (the event has it). */
static void resize_barred(struct job_resize *r, double at_s,
                          const struct detail *d)
{
    r->barred_gpus = d->barred_gpus;
    r->barred_below = d->to_gpus > d->barred_gpus;
    r->barred_s = fmax(0, d->wait_ms / 1000.0);
    r->barred_until_s = at_s + r->barred_s;
    r->is_back = d->to_gpus > 0;
}

/* The first word to stop counts: the attempt may have to go for another job
 * already. */
void resize_asked(struct job *job, double at_s, const struct detail *d,
                  bool is_live)
{
    struct job_resize *r = &job->resize;
    /* What nobody has claimed has not run on its GPUs. */
    bool has_run = r->planned_gpus == 0 || isnan(r->end_asked_s);

    r->gpus = d->to_gpus;
    r->nodes = d->to_nodes > 0 ? d->to_nodes : 0;
    r->planned_gpus = r->planned_nodes = 0;
    r->is_back = false;
    if (d->barred_gpus > 0)
        resize_barred(r, at_s, d);
    if (r->gpus == 0) {
        r->end_asked_s = r->ended_s = NAN;
    } else if (is_live) {
        r->from = has_run ? job->gpus : r->from;
        r->end_asked_s = job->requeue_asked && !isnan(r->end_asked_s)
                             ? r->end_asked_s
                             : at_s;
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

void resize_used(struct job *job, double ended_s)
{
    double from_s = isnan(job->run_s) ? job->start_s : job->run_s;

    if (!isnan(job->start_s) && ended_s > from_s)
        job->used_gpu_s += (ended_s - from_s) * job->gpus;
}

/* An attempt that nobody has claimed leaves its size to the next one. */
void resize_requeued(struct job *job, double ended_s)
{
    struct job_resize *r = &job->resize;

    if (job->saves)
        resize_used(job, ended_s);
    if (isnan(job->claim_s) && r->gpus == 0) {
        r->gpus = r->planned_gpus;
        r->nodes = r->planned_nodes;
    }
    r->planned_gpus = r->planned_nodes = 0;
    if (!isnan(r->end_asked_s) && isnan(r->ended_s))
        r->ended_s = fmax(r->end_asked_s, ended_s);
}

/* What it cost to have the old size again says nothing of a resize. */
void resize_claimed(struct job_resize *r)
{
    r->planned_gpus = r->planned_nodes = 0;
    if (r->is_back)
        r->end_asked_s = r->ended_s = NAN;
    r->is_back = false;
}

bool resize_is_barred(const struct job_resize *r, int32_t gpus)
{
    return r->barred_gpus > 0 &&
           (r->barred_below ? gpus <= r->barred_gpus : gpus >= r->barred_gpus);
}

void resize_ran(struct job *job)
{
    struct job_resize *r = &job->resize;

    if (resize_is_barred(r, job->gpus)) {
        r->barred_gpus = 0;
        r->barred_s = 0;
    }
    if (isnan(r->end_asked_s) || isnan(r->ended_s))
        return;
    r->cost_from = r->from;
    r->checkpoint_s = r->ended_s - r->end_asked_s;
    r->allocator_s = fmax(0, job->start_s - r->ended_s);
    r->start_s = fmax(0, job->run_s - fmax(job->start_s, r->ended_s));
    r->end_asked_s = r->ended_s = NAN;
}

void resize_over(struct job_resize *r)
{
    r->gpus = r->nodes = 0;
}
