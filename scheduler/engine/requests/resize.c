/* resize.c - a person changes the number of GPUs of a job; see resize.h and
 * plan/resizing.c.
 */
#include "scheduler/engine/resize.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/attempts/end_evidence.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/engine/store/corrupt_jobs.h"
#include "scheduler/policy/placement.h"

/* Whether its state allows a resize at all. */
static int check_state(const struct job_record *rec, struct error *err)
{
    const struct job *job = &rec->job;

    if (job_state_is_final(job->state))
        return eng_refuse(job, err, ERR_STATE, "has ended: %s",
                          job_state_name(job->state));
    if (eng_check_whole(rec, err) < 0 ||
        eng_run_refuse(job, "resized", err) < 0)
        return -1;
    if (job->cancel_asked || job->limit_hit || rec->give_up)
        return eng_refuse(job, err, ERR_STATE, "is being ended");
    /* One that was told to stop and saved its work has another attempt. */
    if (job->reported && (!job->requeue_asked || end_has_finished(job)))
        return eng_refuse(job, err, ERR_STATE,
                          "has completed its work and is ending");
    if (job->saves)
        return 0;
    return eng_refuse(
        job, err, ERR_STATE,
        "does not save its work when it is told to stop: it needs %s",
        strcmp(job->kind, "command") == 0
            ? "saves: true"
            : "checkpoint.on_signal: true, retry.resume: true, and a "
              "directory that all attempts share");
}

/* Against the job's own range, whatever was asked for before. */
static int check_size(const struct job *job, const struct engine_size *to,
                      struct error *err)
{
    const struct gpu_sizes own = {
        .gpus = {job->gpus_min, job->gpus_max},
        .nodes = {job->nodes_min, job->nodes_max},
        .per_node = job->per_node,
        .parts = job->parts,
    };
    char sizes[GPU_SIZES_CAP];

    if (!gpu_sizes_have(&own, to->gpus, 0))
        return eng_refuse(job, err, ERR_INVAL,
                          "cannot have %" PRId32 " GPU%s; it may have: %s",
                          to->gpus, to->gpus == 1 ? "" : "s",
                          gpu_sizes_text(&own, sizes));
    if (to->nodes > 0 && to->gpus % to->nodes != 0)
        return eng_refuse(job, err, ERR_INVAL,
                          "cannot divide %" PRId32
                          " GPUs equally among %" PRId32 " nodes",
                          to->gpus, to->nodes);
    if (to->nodes > 0 && !gpu_sizes_have(&own, to->gpus, to->nodes))
        return eng_refuse(job, err, ERR_INVAL,
                          "cannot have %" PRId32 " GPUs on %" PRId32
                          " nodes: its nodes are %" PRId32 "..%" PRId32,
                          to->gpus, to->nodes, job->nodes_min, job->nodes_max);
    return 0;
}

/* Whether the nodes that are up, all idle, hold the size. */
static bool fits(const struct engine *e, const struct job *job, uint64_t closed,
                 const struct policy_node *nodes)
{
    const struct gpu_sizes sizes = eng_sizes(job);
    struct mask_memo memo = {.next = 0};
    struct class_masks masks = eng_masks(e, job, &memo);
    struct policy_job pj = {.gpus_min = sizes.gpus.min,
                            .gpus_max = sizes.gpus.max,
                            .nodes_min = sizes.nodes.min,
                            .nodes_max = sizes.nodes.max,
                            .per_node = sizes.per_node,
                            .parts = sizes.parts};
    size_t n_types = eng_wants_type(e, job) ? e->classes.n_types : 0;
    struct place p;
    bool is = false;

    for (size_t k = 0; !is && k < (n_types > 0 ? n_types : 1); k++) {
        pj.classes = masks.now & ~closed;
        if (n_types > 0)
            pj.classes &=
                eng_type_classes(e, e->nodes[e->classes.of_type[k]].gpu_type);
        is = place_empty(nodes, e->n_nodes, &pj, &p);
    }
    return is;
}

/* in   rec   the job
 *      job  a copy that has the size as its target */
static int check_room(const struct engine *e, const struct job_record *rec,
                      const struct job *job, struct error *err)
{
    uint64_t closed = eng_closed_classes(e, rec);
    char why[JOB_REASON_CAP];
    struct policy_node *nodes = calloc(e->n_nodes + 1, sizeof(*nodes));
    struct job limited = *job;

    limited.gpus_min = limited.gpus_max = job->resize.gpus;
    if (!nodes)
        return error_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < e->n_nodes; i++)
        nodes[i] = (struct policy_node){.gpus_total = e->nodes[i].gpus_total -
                                                      e->nodes[i].gpus_out,
                                        .is_up = e->nodes[i].is_up,
                                        .class_id = e->classes.of[i]};
    bool is = e->n_nodes == 0 || fits(e, job, closed, nodes);
    bool would = is || fits(e, job, 0, nodes);
    free(nodes);
    if (!is && would && eng_say_closed(e, rec, closed, why))
        return eng_refuse(job, err, ERR_STATE,
                          "cannot have %" PRId32 " GPUs: %s", job->resize.gpus,
                          why);
    if (!is)
        return eng_refuse(job, err, ERR_INVAL,
                          "cannot have %" PRId32
                          " GPUs: the nodes that are up could not hold them",
                          job->resize.gpus);
    return eng_check_limits(e, &limited, err);
}

/* A running attempt is not given up for a size that Slurm would not grant. */
static int check_quota(const struct engine *e, const struct job_record *rec,
                       int32_t gpus, struct error *err)
{
    const struct job *job = &rec->job;
    char why[JOB_REASON_CAP];

    if (!job_state_is_live(job->state) || gpus <= job->gpus)
        return 0;
    int32_t most = eng_quota_most(e, job, job->gpus, job->attempt_limit_s, why);
    return gpus <= most
               ? 0
               : eng_refuse(job, err, ERR_STATE,
                            "cannot have %" PRId32 " GPUs in Slurm: %s", gpus,
                            why);
}

/* An attempt that leaves for more GPUs needs GPU-hours to start again. in then
 * a copy that has the size as its target */
static int check_hours(const struct engine *e, struct job then,
                       struct error *err)
{
    const struct job_resize *r = &then.resize;
    int32_t to = r->gpus, has = to; /* a job that never ran loses nothing */
    char why[JOB_REASON_CAP];

    if (job_state_is_live(then.state))
        has = then.gpus;
    else if (!isnan(r->end_asked_s))
        has = r->from;
    then.state = JOB_RUNNING; /* one that is to shrink may start again */
    if (to <= has || !eng_is_spent(e, &then, to, why))
        return 0;
    return eng_refuse(&then, err, ERR_STATE,
                      "cannot grow from %" PRId32 " to %" PRId32 " GPUs: %s",
                      has, to, why);
}

/* Whether the job has the size already, or will have it without another word.
 */
static bool is_asked(const struct job *job, const struct engine_size *to)
{
    const struct job_resize *r = &job->resize;

    return (r->gpus == to->gpus && r->nodes == to->nodes) ||
           (r->gpus == 0 && r->planned_gpus == to->gpus &&
            r->planned_nodes == to->nodes);
}

static bool has_it(const struct job *job, const struct engine_size *to)
{
    return job_state_is_live(job->state) && !job->requeue_asked &&
           job->gpus == to->gpus && (to->nodes == 0 || to->nodes == job->nodes);
}

/* Whether its live attempt has the size of a resize, and no worker yet. */
static bool is_unclaimed(const struct job *job)
{
    return job_state_is_live(job->state) && job->resize.gpus == 0 &&
           job->resize.planned_gpus > 0;
}

/* The GPUs of the attempt that a resize ends, or has ended. 0: none. */
static int32_t from_of(const struct job *job)
{
    const struct job_resize *r = &job->resize;

    if (job_state_is_live(job->state) && !is_unclaimed(job))
        return job->gpus;
    return isnan(r->end_asked_s) ? 0 : r->from;
}

/* "from 1 to 4 GPUs on 2 nodes", "on 1 GPU again" */
static void say_size(const struct job *job, const struct engine_size *to,
                     char *out, size_t cap)
{
    char from[24] = "", on[32] = "";
    int32_t has = from_of(job);

    if (has > 0)
        (void)snprintf(from, sizeof(from), "from %" PRId32 " ", has);
    if (to->nodes > 0)
        (void)snprintf(on, sizeof(on), " on %" PRId32 " node%s", to->nodes,
                       to->nodes == 1 ? "" : "s");
    if (to->gpus == 0)
        (void)snprintf(out, cap, "any size of its range");
    else if (to->gpus == has && to->nodes == 0)
        (void)snprintf(out, cap, "on %" PRId32 " GPU%s again", has,
                       has == 1 ? "" : "s");
    else
        (void)snprintf(out, cap, "%sto %" PRId32 " GPU%s%s", from, to->gpus,
                       to->gpus == 1 ? "" : "s", on);
}

/* "Resizing: from 1 to 4 GPUs on 2 nodes, asked by anna, in place of 2" */
static void say(const struct job *job, const struct engine_size *to,
                const char *who, char ret[JOB_REASON_CAP])
{
    const struct job_resize *r = &job->resize;
    int32_t other = is_unclaimed(job) ? r->planned_gpus : r->gpus;
    char size[64], place[28] = "";

    say_size(job, to, size, sizeof(size));
    if (other > 0)
        (void)snprintf(place, sizeof(place), ", in place of %" PRId32, other);
    (void)snprintf(ret, JOB_REASON_CAP, "Resizing: %s, asked by %.40s%s", size,
                   who, place);
}

void engine_resize_says(const struct job *job, const char *who,
                        const struct engine_size *to, char ret[JOB_REASON_CAP])
{
    struct gpu_sizes target;
    char size[64];

    if (to->gpus == 0 && !eng_target(job, &target)) {
        (void)snprintf(ret, JOB_REASON_CAP, "Resizing: no size was asked for");
    } else if (to->gpus > 0 && is_asked(job, to)) {
        say_size(job, to, size, sizeof(size));
        (void)snprintf(ret, JOB_REASON_CAP, "Resizing: %s is %s already", size,
                       from_of(job) > 0 ? "under way" : "asked for");
    } else {
        say(job, to, who, ret);
    }
}

int engine_resize(struct engine *e, uint64_t id, int64_t uid, const char *who,
                  const struct engine_size *to, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = eng_mine(e, id, uid, err);
    struct gpu_sizes target;

    if (!rec || check_state(rec, err) < 0)
        return -1;
    if (to->gpus == 0 && !eng_target(&rec->job, &target))
        return 0; /* nothing was asked for */
    if (to->gpus > 0) {
        struct job then = rec->job;
        then.resize.gpus = to->gpus;
        then.resize.nodes = to->nodes;
        if (check_size(&rec->job, to, err) < 0)
            return -1;
        if (is_asked(&rec->job, to))
            return 0;
        if (has_it(&rec->job, to))
            return eng_refuse(&rec->job, err, ERR_STATE,
                              "has %" PRId32 " GPU%s already", to->gpus,
                              to->gpus == 1 ? "" : "s");
        if (check_room(e, rec, &then, err) < 0 ||
            check_quota(e, rec, to->gpus, err) < 0 ||
            check_hours(e, then, err) < 0)
            return -1;
    }
    d.to_gpus = to->gpus;
    d.to_nodes = to->nodes;
    say(&rec->job, to, who, d.why);
    return eng_stage(e, rec, EV_PREEMPT, uid, &d, err);
}
