/* resizing.c - tell the policy about jobs that may be resized, and carry out
 * its resizes.
 *
 * A resize is a requeue with a size: EV_PREEMPT has the number of GPUs of the
 * next attempt, and of its nodes. The attempt is told to stop, writes a
 * checkpoint and ends; the job is QUEUED at its old position, and the policies
 * see the size as its whole range. The INTENT of the next attempt takes the
 * size over (fold.c); the attempt after that may have any size of the range.
 * A person's resize is in requests/resize.c.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/engine/table/resize_costs.h"

/* Whether an attempt of the job could be told to stop, and would save its
 * work. */
static bool may_resize(const struct job_record *rec)
{
    const struct job *job = &rec->job;

    return job_state_is_live(job->state) && job->saves && !job->reported &&
           !rec->is_suspended && !eng_is_ending(rec);
}

/* What a policy chooses: an attempt that has begun, of a range. */
static bool is_elastic(const struct job_record *rec)
{
    const struct gpu_sizes sizes = eng_sizes(&rec->job);
    enum job_state s = rec->job.state;

    return (s == JOB_STARTING || s == JOB_RUNNING || s == JOB_STALLED) &&
           may_resize(rec) && gpu_sizes_several(&sizes);
}

/* ---- how often ------------------------------------------------------------
 *
 * Resizes that make room for others are counted with those by which a job
 * grows: each costs it a restart. So others can spend them all, and the job
 * would keep its smallest size for the rest of the hour beside idle GPUs. So it
 * is refused once, for two intervals; then it grows onto idle GPUs, and may
 * give back at any time what it has so. With one interval, the workloads of B2
 * (docs/policy.md) take 2.5 % longer and restart more often.
 */
enum { REFUSED_INTERVALS = 2 };

static double again_s(const struct job_record *rec, uint32_t most)
{
    static const double HOUR_S = 3600;

    return rec->n_resizes < most
               ? 0
               : rec->resized_s[(rec->n_resizes - most) % ENG_RESIZES] + HOUR_S;
}

static void view_turn(const struct engine *e, const struct job_record *rec,
                      struct policy_job_goodput *io)
{
    const struct policy_goodput *p = &e->parts.conf->goodput;

    if (!(p->interval_s > 0))
        p = &policy_goodput_default;
    uint32_t most = p->max_resizes_per_hour < ENG_RESIZES
                        ? (uint32_t)p->max_resizes_per_hour
                        : ENG_RESIZES;
    if (most == 0) {
        io->resizable_s = io->growable_s = io->idle_growable_s = INFINITY;
        return;
    }
    bool has_more = rec->spent_gpus > 0 && rec->job.gpus > rec->spent_gpus;
    io->resizable_s = has_more ? 0 : again_s(rec, most);
    io->growable_s = again_s(rec, most - (most > 1));
    io->idle_growable_s = eng_start_of(rec, eng_now(e)) + p->min_runtime_s +
                          REFUSED_INTERVALS * p->interval_s;
}

/* What the attempt's start took: if it is of a resize, from the word to stop; a
 * class whose resizes take longer on the mean may expect that. */
static double start_took_s(const struct job_record *rec, double mean_s)
{
    const struct job_resize *r = &rec->job.resize;
    double own_s = rec->job.run_s - rec->job.start_s;
    double resize_s = r->checkpoint_s + r->allocator_s + r->start_s;

    return fmax(fmax(own_s, resize_s), mean_s); /* those that are not NAN */
}

/* When the attempt has computed for as long, at most the horizon: a start that
 * waited for hours in the queue of a cluster says little of the next one. Each
 * size that is left earlier takes more from the job than it gives. */
static double paid_s(const struct engine *e, const struct job_record *rec,
                     double mean_s)
{
    const struct job *job = &rec->job;
    const struct policy_goodput *p = &e->parts.conf->goodput;
    double began_s = eng_start_of(rec, eng_now(e)) + job->run_s - job->start_s;
    double most_s =
        p->horizon_s > 0 ? p->horizon_s : policy_goodput_default.horizon_s;

    if (isnan(job->run_s))
        return INFINITY;
    return began_s + fmin(fmax(0, start_took_s(rec, mean_s)), most_s);
}

void eng_view_resize(const struct engine *e, const struct job_record *rec,
                     struct policy_job *io)
{
    const struct job_resize *r = &rec->job.resize;

    io->to_gpus = r->gpus > 0 ? r->gpus : r->planned_gpus;
    io->to_nodes = r->gpus > 0 ? r->nodes : r->planned_nodes;
    io->may_resize = is_elastic(rec);
    io->cost_s = eng_costs_mean_s(e, rec);
    io->goodput.paid_s = paid_s(e, rec, io->cost_s);
    view_turn(e, rec, &io->goodput);
}

/* job_record.spent_gpus after a resize. in gpus of the next attempt; 0: it
 * waits */
static int32_t spent_after(const struct engine *e, const struct job_record *rec,
                           int32_t gpus)
{
    struct policy_job_goodput may = {.curve = NULL};

    view_turn(e, rec, &may);
    if (gpus >= rec->job.gpus && eng_now(e) < may.growable_s)
        return rec->spent_gpus > 0 ? rec->spent_gpus : rec->job.gpus;
    return gpus < rec->job.gpus && gpus > rec->spent_gpus ? rec->spent_gpus : 0;
}

/* No GPUs: the job makes room, and waits for any size. */
static void say_resize(const struct engine *e, const struct job_record *rec,
                       const struct policy_decision *w, struct detail *d)
{
    if (w->nodes == 0) {
        (void)snprintf(d->why, sizeof(d->why),
                       "Resizing: makes room for other jobs and waits, chosen "
                       "by policy %s",
                       e->policy->name);
        return;
    }
    d->to_nodes = w->nodes;
    d->to_gpus = w->nodes * w->gpus_per_node;
    (void)snprintf(d->why, sizeof(d->why),
                   "Resizing: from %" PRId32 " to %" PRId32
                   " GPUs, chosen by policy %s",
                   rec->job.gpus, d->to_gpus, e->policy->name);
}

int eng_resize(struct engine *e, struct job_record *rec,
               const struct policy_decision *w, struct error *err)
{
    struct detail d = DETAIL_INIT;

    if (w->nodes == rec->job.nodes &&
        w->nodes * w->gpus_per_node == rec->job.gpus)
        return 0; /* a limit of its user keeps it from growing */
    say_resize(e, rec, w, &d);
    int32_t spent = spent_after(e, rec, d.to_gpus);
    if (eng_stage(e, rec, EV_PREEMPT, -1, &d, err) < 0)
        return -1;
    rec->resized_s[rec->n_resizes++ % ENG_RESIZES] = eng_now(e);
    rec->spent_gpus = spent;
    rec->paused_s = d.to_gpus > 0 ? -INFINITY : eng_now(e);
    return 0;
}

static struct gpu_sizes sizes_of(const struct policy_job *job)
{
    return (struct gpu_sizes){
        .gpus = {job->gpus_min, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
}

void eng_leave_out_barred(const struct job_resize *r, double wall_s,
                          struct policy_job *io)
{
    struct gpu_sizes sizes = sizes_of(io);

    if (r->barred_gpus == 0 || !(r->barred_until_s > wall_s) || io->to_gpus > 0)
        return;
    if (r->barred_below) {
        int32_t least = r->barred_gpus + 1;
        least = io->gpus > 0 && io->gpus < least ? io->gpus : least;
        sizes.gpus.min = least > io->gpus_min ? least : io->gpus_min;
    } else {
        int32_t most = r->barred_gpus - 1;
        most = io->gpus > most ? io->gpus : most;
        sizes.gpus.max = most < io->gpus_max ? most : io->gpus_max;
    }
    if (sizes.gpus.max < sizes.gpus.min || !gpu_sizes_any(&sizes))
        return; /* nothing else is left to ask for */
    io->gpus_min = sizes.gpus.min;
    io->gpus_max = sizes.gpus.max;
}

void eng_leave_out_quota(const struct engine *e, const struct job_record *rec,
                         struct policy_job *io)
{
    char why[JOB_REASON_CAP];

    /* First: in a long queue each record is a cache miss. */
    if (io->gpus_min >= io->gpus_max || io->to_gpus > 0)
        return;
    struct gpu_sizes sizes = sizes_of(io);
    double limit_s = rec->job.attempt_limit_s;
    if (io->gpus > 0 && !isnan(rec->start_now_s))
        limit_s = fmax(1, limit_s - (eng_now(e) - rec->start_now_s));
    int32_t most = eng_quota_most(e, &rec->job, io->gpus, limit_s, why);
    most = most > io->gpus ? most : io->gpus;
    /* Slurm keeps the smallest one pending. */
    most = most > io->gpus_min ? most : io->gpus_min;
    if (most >= io->gpus_max)
        return;
    sizes.gpus.max = most;
    if (gpu_sizes_any(&sizes))
        io->gpus_max = most;
}
