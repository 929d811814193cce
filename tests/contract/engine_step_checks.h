/* engine_step_checks.h - what must hold of a world after each of its steps. */
#ifndef MGPU_TESTS_ENGINE_STEP_CHECKS_H
#define MGPU_TESTS_ENGINE_STEP_CHECKS_H

#include "tests/contract/engine_lists.h"
#include "tests/contract/engine_script.h"
#include "tests/contract/engine_view.h"

static inline void world_count_type(struct world *w, const struct job *job,
                                    int32_t n_of[2])
{
    const char *type = engine_where(w->engine, job).gpu_type;
    if (w->script->parts < 2 || job->gpus == 0)
        return;
    if (!type || strncmp(type, "fake", 4) != 0 || type[4] < '0' ||
        type[4] > '1' || type[5])
        world_bad(w, "its GPUs are of no type", job->id);
    else
        n_of[type[4] - '0'] += job->gpus;
}

/* I4: what is promised to live attempts never exceeds the cluster, but for
 * those that stand in its line. */
static inline void world_check_gpus(struct world *w)
{
    int32_t n = 0, n_of[2] = {0};
    for (const struct job *job = engine_next_job(w->engine, 0); job;
         job = engine_next_job(w->engine, job->id)) {
        bool may_wait =
            w->script->submit_ahead > 0 ||
            (job->attempt > 0 && world_plan(w, job, job->attempt)->is_held);
        if (job_state_is_live(job->state) && (!may_wait || job->place[0]))
            n += job->gpus;
        if (job_state_is_live(job->state) && (!may_wait || job->place[0]))
            world_count_type(w, job, n_of);
        if (strstr(job->reason, "GPUs of any type"))
            world_bad(w, "asked for without a type", job->id);
    }
    const struct world_script *s = w->script;
    int32_t machines = s->parts > 1 ? s->nodes / s->parts : s->nodes;
    if (n > s->nodes * s->gpus_per_node ||
        (s->parts > 1 && n > machines * s->shared))
        world_bad(w, "over-committed", 0);
    if (n_of[0] > machines * s->gpus_per_node ||
        n_of[1] > machines * s->gpus_per_node)
        world_bad(w, "more of a type than there are", 0);
}

static inline void world_check_files(struct world *w)
{
    const char *why = lists_check(w->engine);
    if (!why && w->script->plans_twice)
        why = view_check(w->engine);
    if (why)
        world_bad(w, why, 0);
}

#endif
