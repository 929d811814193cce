/* refused_sizes.c - start no job on GPUs whose memory its class does not fit.
 *
 * A worker that refused its plan has told what a GPU lacks
 * (memory_refusals.h). The policies do not know of it: the bounds of a job in
 * their view leave out what was refused.
 */
#include <inttypes.h>
#include <stdio.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/table/memory_refusals.h"
#include "scheduler/policy/placement.h"

static const char *type_of(const struct engine *e, int32_t class_id)
{
    return e->nodes[e->classes.first[class_id]].gpu_type;
}

/* The smallest number of GPUs of the class of nodes that was not refused. */
static int32_t least_on(const struct engine *e, const struct job_record *rec,
                        const struct policy_job *job, int32_t class_id)
{
    const struct eng_refusal *r = eng_refusal_of(e, rec, type_of(e, class_id));
    return r && r->gpus >= job->gpus_min ? r->gpus + 1 : job->gpus_min;
}

static bool has_size(const struct policy_job *job, int32_t least)
{
    const struct gpu_sizes sizes = {
        .gpus = {least, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
    return least <= job->gpus_max && gpu_sizes_any(&sizes);
}

/* The job with at least so many GPUs, on the classes that did not refuse them.
 */
static struct policy_job with_least(const struct policy_job *job,
                                    const int32_t *leasts, int32_t n_classes,
                                    int32_t least)
{
    struct policy_job as = *job;
    uint64_t mask = 0;

    for (int32_t k = 0; k < n_classes; k++)
        if (leasts[k] <= least)
            mask |= UINT64_C(1) << (unsigned)k;
    as.gpus_min = least;
    as.classes &= mask;
    as.classes_ever &= mask;
    return as;
}

/* The next larger of the leasts of the job's classes; INT32_MAX: none. */
static int32_t next_least(const struct policy_job *job, const int32_t *leasts,
                          int32_t n_classes, int32_t than)
{
    int32_t next = INT32_MAX;

    for (int32_t k = 0; k < n_classes; k++)
        if ((job->classes_ever >> (unsigned)k & 1) != 0 && leasts[k] > than &&
            leasts[k] < next)
            next = leasts[k];
    return next;
}

/* Leaves only sizes and classes of nodes that were not refused. A job has one
 * range for all of its classes, so it is the smallest range that fits now, or
 * else the smallest that these nodes could hold: a type that takes few GPUs is
 * no good while its nodes are busy, and none at all if they are too small.
 * False: there is none. */
static bool narrow(const struct engine *e, const struct job_record *rec,
                   const struct policy_view *v, struct policy_job *io)
{
    int32_t leasts[POLICY_CLASSES], n = e->classes.n, least = 0;
    struct policy_job best = *io;
    bool has_best = false, is_refused = false;
    struct place place;

    for (int32_t k = 0; k < n; k++) {
        leasts[k] = least_on(e, rec, io, k);
        is_refused = is_refused || leasts[k] > io->gpus_min;
    }
    if (!is_refused)
        return true;
    while ((least = next_least(io, leasts, n, least)) < INT32_MAX) {
        struct policy_job as = with_least(io, leasts, n, least);
        if (!has_size(&as, least) ||
            !place_ever(v->nodes, v->n_nodes, &as, true))
            continue;
        if (place_find(v->nodes, v->n_nodes, &as, &place)) {
            *io = as;
            return true;
        }
        if (!has_best)
            best = as;
        has_best = true;
    }
    *io = best;
    return has_best;
}

/* A live job has its size already, and stays on its type. */
static void narrow_live(const struct engine *e, const struct job_record *rec,
                        struct policy_job *io)
{
    const struct eng_refusal *r =
        io->may_resize ? eng_refusal_of(e, rec, rec->job.on_type) : NULL;

    if (r && r->gpus >= io->gpus_min && r->gpus < io->gpus)
        io->gpus_min = r->gpus + 1;
}

/* "Memory: needs 82.1 GiB on each GPU, h100 has 79.2 GiB; up to 4 GPUs were
 * refused to jobs of its class" */
static void say(const struct engine *e, struct job_record *rec,
                const struct policy_job *pj)
{
    static const double GIB = 1073741824.0;
    char why[JOB_REASON_CAP];

    for (int32_t k = 0; k < e->classes.n; k++) {
        const struct eng_refusal *r =
            (pj->classes_ever >> (unsigned)k & 1) != 0
                ? eng_refusal_of(e, rec, type_of(e, k))
                : NULL;
        if (!r)
            continue;
        (void)snprintf(why, sizeof(why),
                       "Memory: its class needs %.1f GiB on each GPU, %.31s "
                       "had %.1f GiB; refused at up to %" PRId32 " GPUs",
                       (double)r->needed_bytes / GIB, r->gpu_type,
                       (double)r->available_bytes / GIB, r->gpus);
        (void)eng_set_reason((struct engine *)e, rec, why);
        return;
    }
}

size_t eng_refused_drop(struct engine *e, const struct policy_view *v,
                        struct policy_job *jobs)
{
    size_t kept = 0, n = v->n_jobs;

    for (size_t i = 0; i < n; i++) {
        struct job_record *rec = eng_find(e, jobs[i].id);
        struct policy_job was = jobs[i];
        if (job_state_is_live(was.state)) {
            narrow_live(e, rec, &jobs[i]);
        } else if (was.gpus_max > 0 && !narrow(e, rec, v, &jobs[i])) {
            rec->job.start_estimate_s = (double)__builtin_nan("");
            say(e, rec, &was);
            continue;
        }
        jobs[kept++] = jobs[i];
    }
    return kept;
}

bool eng_refused_has_larger(const struct engine *e,
                            const struct job_record *rec)
{
    struct job larger = rec->job;

    larger.gpus_min = larger.gpus + 1;
    if (larger.gpus_min > larger.gpus_max)
        return false;
    const struct gpu_sizes sizes = eng_sizes(&larger);
    return gpu_sizes_any(&sizes) &&
           eng_feasibility_check(e, &larger, NULL) == 0;
}
