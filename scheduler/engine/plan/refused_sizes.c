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

static const char *type_of(const struct engine *e, int32_t class_id)
{
    return e->nodes[e->classes.first[class_id]].gpu_type;
}

/* The smallest number of GPUs of the class of nodes that was not refused. */
static int32_t least_on(const struct engine *e, const struct entry *en,
                        const struct policy_job *job, int32_t class_id)
{
    const struct eng_refusal *r = eng_refusal_of(e, en, type_of(e, class_id));
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

/* Leaves the classes of nodes on which the fewest sizes were refused, and only
 * the sizes that were not. False: there is none. */
static bool narrow(const struct engine *e, const struct entry *en,
                   struct policy_job *io)
{
    int32_t best = INT32_MAX;
    uint64_t mask = 0;

    for (int32_t k = 0; k < e->classes.n; k++) {
        uint64_t bit = UINT64_C(1) << (unsigned)k;
        if ((io->classes_ever & bit) == 0)
            continue;
        int32_t least = least_on(e, en, io, k);
        mask = least < best ? bit : least == best ? mask | bit : mask;
        best = least < best ? least : best;
    }
    if (best == INT32_MAX || best == io->gpus_min) {
        /* Nothing was refused on some nodes: the others are left out. */
        io->classes &= mask ? mask : io->classes;
        io->classes_ever &= mask ? mask : io->classes_ever;
        return true;
    }
    if (!has_size(io, best))
        return false;
    io->classes &= mask;
    io->classes_ever &= mask;
    io->gpus_min = best;
    return true;
}

/* "Memory: needs 82.1 GiB on each GPU, h100 has 79.2 GiB; up to 4 GPUs were
 * refused to jobs of its class" */
static void say(const struct engine *e, struct entry *en,
                const struct policy_job *pj)
{
    static const double GIB = 1073741824.0;
    char why[JOB_REASON_CAP];

    for (int32_t k = 0; k < e->classes.n; k++) {
        const struct eng_refusal *r = (pj->classes_ever >> (unsigned)k & 1) != 0
                                          ? eng_refusal_of(e, en, type_of(e, k))
                                          : NULL;
        if (!r)
            continue;
        (void)snprintf(why, sizeof(why),
                       "Memory: its class needs %.1f GiB on each GPU, %.31s "
                       "had %.1f GiB; refused at up to %" PRId32 " GPUs",
                       (double)r->needed_bytes / GIB, r->gpu_type,
                       (double)r->available_bytes / GIB, r->gpus);
        (void)eng_set_reason((struct engine *)e, en, why);
        return;
    }
}

size_t eng_drop_refused(struct engine *e, struct policy_job *jobs, size_t n)
{
    size_t kept = 0;

    for (size_t i = 0; i < n; i++) {
        struct entry *en = eng_find(e, jobs[i].id);
        struct policy_job was = jobs[i];
        bool is_live = job_state_is_live(was.state);
        if (was.gpus_max > 0 && !narrow(e, en, &jobs[i]) && !is_live) {
            en->job.start_estimate_s = (double)__builtin_nan("");
            say(e, en, &was);
            continue;
        }
        /* A live job has its size already. */
        if (is_live) {
            int32_t least = jobs[i].gpus_min;
            jobs[i] = was;
            if (least <= was.gpus && was.may_resize)
                jobs[i].gpus_min = least;
        }
        jobs[kept++] = jobs[i];
    }
    return kept;
}

bool eng_has_larger(const struct engine *e, const struct entry *en)
{
    struct job larger = en->job;

    larger.gpus_min = larger.gpus + 1;
    if (larger.gpus_min > larger.gpus_max)
        return false;
    const struct gpu_sizes sizes = eng_sizes(&larger);
    return gpu_sizes_any(&sizes) && eng_check_fits(e, &larger, NULL) == 0;
}
