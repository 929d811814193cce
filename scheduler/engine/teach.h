/* teach.h - callers tell the engine the speed and the length of jobs.
 *
 * These are facts in memory, never events: they are lost in a restart, and the
 * daemon tells them again from its metrics. The engine holds one model
 * (policy/throughput.h) for each class of jobs and type of GPU; the policy
 * `goodput` sees them as curves. The simulator teaches by the beats of its own
 * workers.
 */
#ifndef MGPU_SCHEDULER_ENGINE_TEACH_H
#define MGPU_SCHEDULER_ENGINE_TEACH_H

#include "scheduler/engine/engine.h"
#include "scheduler/policy/throughput.h"

/* At the start: a size of a class, as it was stored. The model does not know
 * the size yet, or the row replaces what it knows.
 * in   class     as the store has it of the run
 *      gpu_type  "": unknown, of a run that was recorded before runs had one:
 *                counts for every type, on sizes that were not measured there
 *      is_weak   as engine_is_weak() of a job of the class
 * err  ERR_INVAL the row is not valid; ERR_LIMIT too many classes or sizes;
 *      ERR_NOMEM */
int engine_teach(struct engine *e, const char *class, const char *gpu_type,
                 bool is_weak, const struct throughput_row *row,
                 struct error *err) MUST_CHECK;

/* While a job runs: iterations of its current attempt, each told once. Leaves
 * out the first THROUGHPUT_WARM_UP of the attempt. Does nothing if the attempt
 * is not the job's current one, is not live, or was granted no GPU.
 * in   from      iteration before the first of them, as heartbeats count
 *      n         how many iterations
 *      t_iter_s  their mean
 * err  ERR_LIMIT, ERR_NOMEM */
int engine_teach_iterations(struct engine *e, uint64_t id, int32_t attempt,
                            int64_t from, int64_t n, double t_iter_s,
                            struct error *err) MUST_CHECK;

/* A job that changes its speed while it trains, because it adapts its batch,
 * tells its own rates: until it ends they count instead of those of its class.
 * in   rows[n]  replace what it told before; row.n counts as measured
 * err  ERR_INVAL a row is not valid; ERR_LIMIT, ERR_NOMEM */
int engine_teach_job(struct engine *e, uint64_t id,
                     const struct throughput_row *rows, size_t n,
                     struct error *err) MUST_CHECK;

/* The iterations of the whole job, as its spec has them: they count until its
 * first heartbeat reports the number. Does nothing for an unknown job. */
void engine_teach_length(struct engine *e, uint64_t id, int64_t iterations);

/* ---- reading --------------------------------------------------------------
 */
/* The samples of an iteration grow with the number of GPUs. */
bool engine_is_weak(const struct job *job);
/* The model of the job's class on the GPUs that it has, or would get; NULL: the
 * engine knows of no run. Valid until the next call that changes e. */
const struct throughput *engine_throughput(const struct engine *e,
                                           const struct job *job);
/* The job's class, as attempts have it in the store; NULL: unknown. Valid until
 * the job is removed. */
const char *engine_model_class(const struct engine *e, const struct job *job);
/* The type of these GPUs; "": unknown. Valid until the next step. */
const char *engine_model_type(const struct engine *e, const struct job *job);

/* A user or an account, of either name, whose jobs do not start now, and the
 * reason that they have meanwhile. What runs goes on. */
enum { ENGINE_SPENT_NAME_CAP = 64 };
struct engine_spent {
    char name[ENGINE_SPENT_NAME_CAP];
    char why[JOB_REASON_CAP];
};
/* Replaces what was told before; copies v[n]. err ERR_NOMEM */
int engine_teach_spent(struct engine *e, const struct engine_spent *v, size_t n,
                       struct error *err) MUST_CHECK;

#endif
