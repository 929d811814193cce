/* resize_patience.c - give up a size that the allocator does not grant.
 *
 * A resize gives up an attempt that runs. If the cluster then does not grant
 * the new size, the job has no GPUs at all, perhaps for days, while its old
 * ones are idle. So a larger size that was not granted within
 * resize_patience_s of the end of the old attempt is given up, as is any size
 * that is refused, or that is pending for a limit of the size: the job requests
 * its old size again, before all others. An attempt with a size that the policy
 * chose at a start gives way to a smaller one in the same way. A size below the
 * old one that only waits for GPUs is kept: the old one would wait longer.
 *
 * The event has the size, and for how long it, and what is harder to grant, is
 * not tried: twice as long as the last time. A person may request it all the
 * same.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/events/fold_resize.h"
#include "scheduler/engine/plan/take_back.h"

/* As long as a job that a limit of its user refuses waits for its next try
 * (allocator_notes.c), to a day. */
static const double BAR_FIRST_S = 300, BAR_MAX_S = 86400;

/* ---- what may be given up --------------------------------------------------
 */
/* The size that the job had before its resize to `to` GPUs; 0: there is none to
 * go back to. */
static int32_t old_size(const struct job *job, int32_t to)
{
    const struct job_resize *r = &job->resize;

    return to > 0 && !r->is_back && !isnan(r->end_asked_s) && r->from != to
               ? r->from
               : 0;
}

static struct gpu_sizes own_sizes(const struct job *job)
{
    return (struct gpu_sizes){
        .gpus = {job->gpus_min, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
}

static bool has_smaller(const struct job *job)
{
    struct gpu_sizes sizes = own_sizes(job);

    sizes.gpus.max = job->gpus - 1;
    return sizes.gpus.max >= sizes.gpus.min && sizes.gpus.max > 0 &&
           gpu_sizes_any(&sizes);
}

/* A person chose the size of a pending job: it waits for that one. */
static bool is_persons(const struct job_resize *r)
{
    return r->planned_gpus > 0 && !r->is_back && isnan(r->end_asked_s);
}

bool eng_may_give_up(const struct job_record *rec, bool is_of_size)
{
    const struct job *job = &rec->job;

    return old_size(job, job->resize.planned_gpus) > 0 ||
           (is_of_size && has_smaller(job) && !is_persons(&job->resize));
}

/* ---- giving up -------------------------------------------------------------
 */
static double bar_s(const struct job_resize *r, int32_t gpus)
{
    if (!(r->barred_s > 0))
        return BAR_FIRST_S;
    return resize_is_barred(r, gpus) ? fmin(2 * r->barred_s, BAR_MAX_S)
                                     : r->barred_s;
}

/* The job is queued. in old 0: any size that is easier to grant */
static int bar(struct engine *e, struct job_record *rec, int32_t gpus,
               int32_t old, const char *why, struct error *err)
{
    struct detail d = DETAIL_INIT;
    char text[2 * JOB_REASON_CAP];
    double s = bar_s(&rec->job.resize, gpus);

    d.to_gpus = old;
    d.barred_gpus = gpus;
    d.wait_ms = (int32_t)(1000 * s);
    if (old > 0)
        (void)snprintf(text, sizeof(text),
                       "Resizing: back to %" PRId32 " GPU%s, %" PRId32
                       " not granted, nor tried for %.0f min: ",
                       old, old == 1 ? "" : "s", gpus, s / 60);
    else
        (void)snprintf(text, sizeof(text),
                       "Resizing: %" PRId32
                       " GPUs not granted, nor tried for %.0f min: ",
                       gpus, s / 60);
    detail_because(&d, text, why);
    return eng_stage(e, rec, EV_PREEMPT, -1, &d, err);
}

int eng_refused_size(struct engine *e, struct job_record *rec, const char *why,
                     struct error *err)
{
    struct detail d = DETAIL_INIT;
    const struct job *job = &rec->job;
    int32_t old = old_size(job, job->resize.planned_gpus);
    /* A refusal does not name its limit, which may be one of jobs: one more try
     * is enough. */
    int32_t gpus = old > 0 ? job->gpus : job->gpus_min + 1;

    d.exit_code = EXIT_NEVER_RAN;
    detail_because(&d, "could not be started: ", why);
    if (eng_stage(e, rec, EV_REQUEUE, -1, &d, err) < 0)
        return -1;
    return bar(e, rec, gpus, old, why, err);
}

/* When the patience with a size ends, on the wall clock; INFINITY: never. While
 * the cluster does not answer, it grants nothing.
 * in   to       the size of the resize
 *      is_held  it waits, and not for devices */
static double patience_ends_s(const struct engine *e, const struct job *job,
                              int32_t to, bool is_held)
{
    double s = e->parts.conf->resize_patience_s;
    int32_t old = old_size(job, to);

    return s > 0 && old > 0 && (old < to || is_held) &&
                   !isnan(job->resize.ended_s)
               ? fmax(job->resize.ended_s, e->back_s) + s
               : (double)INFINITY;
}

/* An attempt that is pending in the allocator. */
static int look_at(struct engine *e, struct job_record *rec, struct error *err)
{
    const struct job *job = &rec->job;
    int32_t gpus = job->gpus, to = job->resize.planned_gpus;
    int32_t old = old_size(job, to);
    char why[JOB_REASON_CAP], cause[JOB_REASON_CAP + 40];

    bool is_refused =
        rec->is_over_size &&
        (old > 0 ? old < gpus : has_smaller(job) && !is_persons(&job->resize));
    if (!is_refused && patience_ends_s(e, job, to, rec->is_held) > eng_wall(e))
        return 0;
    text_copy(why, sizeof(why), job->reason);
    (void)snprintf(cause, sizeof(cause), "%" PRId32 " GPUs not granted: %s",
                   gpus, why);
    if (eng_take_back(e, rec, cause, err) < 0)
        return -1;
    return bar(e, rec, gpus, old, why, err);
}

/* Such jobs are the first of the queue. A cluster that cannot be told does not
 * stop the others for longer than the patience. */
static bool waits_for_drop(const struct engine *e)
{
    const struct queue *q = &e->lists.queue;
    double since_s = eng_wall(e) - e->parts.conf->resize_patience_s;

    for (size_t i = 0; i < q->n && q->at[i]->is_back; i++)
        if (q->at[i]->is_dropping && q->at[i]->record->job.requeue_s > since_s)
            return true;
    return false;
}

int eng_give_up_sizes(struct engine *e, bool *ret_waits, struct error *err)
{
    struct job_record *rec = eng_next_moving(e, 0);
    const struct queue *q = &e->lists.queue;

    for (; rec; rec = eng_next_moving(e, rec->job.id))
        if (eng_is_pending(rec) && look_at(e, rec, err) < 0)
            return -1;
    for (size_t i = 0; q->n_resized > 0 && i < q->n; i++) {
        const struct waiting *w = q->at[i];
        char why[JOB_REASON_CAP];
        if (w->to_gpus == 0 || patience_ends_s(e, &w->record->job, w->to_gpus,
                                               false) > eng_wall(e))
            continue;
        text_copy(why, sizeof(why), w->record->job.reason);
        if (bar(e, w->record, w->to_gpus, old_size(&w->record->job, w->to_gpus),
                why, err) < 0)
            return -1;
        i = (size_t)-1; /* the queue has another order now */
    }
    *ret_waits = waits_for_drop(e);
    return 0;
}

double eng_patience_next(const struct engine *e)
{
    const struct queue *q = &e->lists.queue;
    double at_s = INFINITY;

    for (size_t i = 0; i < e->lists.moving.n; i++) {
        const struct job_record *rec = e->lists.moving.at[i];
        if (rec->job.state == JOB_DISPATCHING)
            at_s = fmin(at_s, patience_ends_s(e, &rec->job,
                                              rec->job.resize.planned_gpus,
                                              rec->is_held));
    }
    for (size_t i = 0; q->n_resized > 0 && i < q->n; i++)
        if (q->at[i]->to_gpus > 0)
            at_s = fmin(at_s, patience_ends_s(e, &q->at[i]->record->job,
                                              q->at[i]->to_gpus, false));
    /* One that may be granted any moment is looked at again a second later. */
    return eng_now(e) + fmax(1, at_s - eng_wall(e));
}
