/* engine_script.h - what a test of the engine lets happen: see engine_world.h.
 */
#ifndef MGPU_TESTS_ENGINE_SCRIPT_H
#define MGPU_TESTS_ENGINE_SCRIPT_H

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/mem/store_mem.h"
#include "db/store_faulty.h"
#include "jobs/base/clock.h"
#include "scheduler/engine/engine.h"
#include "slurm/fake/alloc_fake.h"
#include "tests/tap.h"

enum { WORLD_JOBS = 48, WORLD_ACTS = 160, WORLD_ATTEMPTS = 8 };

/* One attempt of a job, as it would go undisturbed. */
struct world_attempt {
    double run_s; /* 0: 10 s */
    int32_t exit_code, signal;
    int32_t refuse, unknown;
    int32_t lose; /* 1: before its worker reports; 2: after that; 3: before,
                     4: after, by the cluster's scheduler itself; 5: before,
                     preempted by it */
    const char *fault_node;              /* its worker reports it */
    int64_t needed_bytes;                /* its worker refuses its plan */
    int32_t no_claim, no_report, silent; /* silent: no beat after the claim */
    int32_t no_figures;                  /* its beats tell of no iteration */
    int32_t twice;
    int32_t is_held; /* it waits, and not for devices */
    double wait_s;
    const char *wait_why, *why;
    enum alloc_ended_by ended_by;
};

/* What its worker reports beside its exit code: whether a rank was told to stop
 * before its work was done, and that it refused its plan. */
static inline const struct engine_report_extra *world_extra(
    const struct world_attempt *a, const struct job *job,
    struct engine_report_extra *room)
{
    bool is_told = job->cancel_asked || job->requeue_asked || job->limit_hit ||
                   job->release_asked || a->ended_by == ALLOC_BY_LIMIT ||
                   a->ended_by == ALLOC_BY_OTHER;
    *room = (struct engine_report_extra){
        .cpu_ms = -1,
        .cores_ms = -1,
        .stopped = a->exit_code != 0 ? -1 : is_told,
        .cause = a->needed_bytes > 0 ? "memory" : NULL,
        .needed_bytes = a->needed_bytes,
        .available_bytes = a->needed_bytes / 2,
    };
    return room;
}

struct world_job {
    const char *spec_more; /* more members of the spec, or NULL */
    int32_t gpus;
    int32_t gpus_max;  /* above gpus: it has a range, and saves its work */
    const char *after; /* "afterok", ...: it waits for after_job; or NULL */
    int32_t after_job; /* an earlier one */
    struct world_attempt attempts[WORLD_ATTEMPTS];
};

enum world_verb {
    W_SUBMIT,
    W_CANCEL,
    W_HOLD,
    W_RELEASE,
    W_REQUEUE,
    W_RESIZE,
    W_TOP /* by an administrator */
};
struct world_act {
    double at_s;
    enum world_verb verb;
    int32_t job;         /* index; its key is "k<index>" */
    int64_t uid;         /* 0: the job's own user, 1000 */
    bool hold;           /* SUBMIT */
    int32_t gpus, nodes; /* RESIZE; gpus 0: any */
};

struct world_script {
    int32_t nodes, gpus_per_node;
    int32_t parts, shared; /* as alloc_fake_conf's */
    /* As alloc_fake_conf's; arg is the world. */
    void (*node)(void *arg, int32_t i, struct alloc_node *io);
    bool (*may_use)(void *arg, int32_t i, const struct alloc_where *w);
    size_t (*quotas)(void *arg, const struct alloc_quota **ret); /* likewise */
    /* Changes the outcome of an attempt with so many GPUs; or NULL. */
    void (*outcome)(int32_t gpus, struct alloc_fake_outcome *io);
    const struct policy *policy;
    double grant_delay_s;
    double resize_patience_s; /* as engine_conf's */
    double node_lost_s;       /* 0: workers may be silent */
    int32_t submit_ahead;
    struct policy_preempt preempt;
    struct policy_goodput goodput; /* interval_s 0: the defaults */
    bool gives_up;      /* users cancel what waits for others in vain */
    const char *db_dir; /* SQLite in this directory; NULL: in memory */
    /* The disk takes its time: half of what is asked comes while a batch is
     * on its way to it. The daemon dies with the n-th batch on its way, which
     * was stored already or not. */
    bool in_flight;
    int die_in_flight; /* 0: never */
    bool is_stored;
    /* After each step a plan from the kept queue is compared with one from a
     * new queue. Both call the policy, and say who waits for his sweep. */
    bool plans_twice;
    struct world_job jobs[WORLD_JOBS];
    struct world_act acts[WORLD_ACTS];
    size_t n_acts;
};

struct world {
    const struct world_script *script;
    struct clock_virtual clock;
    struct store_mem_world *db;
    struct alloc_fake_world *cluster;
    struct engine_conf conf;

    struct store *store; /* the daemon's parts; NULL while it is dead */
    struct alloc *alloc;
    struct engine *engine;
    struct store_fault fault;                   /* for the next daemon */
    struct alloc *(*wrap)(struct alloc *inner); /* takes inner; or NULL */
    /* engine_parts.lags; or NULL */
    void (*lags)(void *arg, const struct job *job, char *ret, size_t cap);
    struct store *(*wrap_store)(struct store *inner); /* likewise */
    double (*next_s)(void); /* when the wrap has something to do; or NULL */

    uint64_t ids[WORLD_JOBS]; /* acknowledged; 0: not yet */
    uint64_t ticket[WORLD_ACTS];
    enum { TODO, ASKED, DONE } acts[WORLD_ACTS];
    int32_t exit_hook_fails; /* this many times */
    int32_t n_exit_hooks;
    uint64_t events_seen;
    int n_steps, n_crashes, n_failed_steps, n_flights;
    int64_t n_calls; /* of the last daemon's store */
    int n_attempt_rows, n_left_out;
    int n_bad;
};

static inline void world_bad(struct world *w, const char *what, uint64_t job)
{
    if (w->n_bad++ < 10)
        tap_diag("%s: job %" PRIu64 " at %.1f s, step %d", what, job,
                 w->clock.t_s, w->n_steps);
}

static inline int32_t world_index(const struct job *job)
{
    if (job->key[0] == '\0') /* a damaged one has none */
        return 0;
    return (int32_t)strtol(job->key + 1, NULL, 10) + job->task;
}

static inline const struct world_attempt *world_plan(const struct world *w,
                                                     const struct job *job,
                                                     int32_t attempt)
{
    int32_t k = attempt <= WORLD_ATTEMPTS ? attempt - 1 : WORLD_ATTEMPTS - 1;
    return &w->script->jobs[world_index(job)].attempts[k];
}

#endif
