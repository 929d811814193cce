/* memory_plan.h - the memory of a rank by part. A rank prints it before it
 * allocates anything, and refuses a job that does not fit. */
#ifndef MGPU_WORKER_TRAIN_MEMORY_PLAN_H
#define MGPU_WORKER_TRAIN_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/spec/spec.h"
#include "worker/model.h"
#include "worker/process/host_memory.h"

struct memory_ask {
    const struct job_spec *spec;
    enum dtype dt;
    struct model_plan model;
    int32_t parts; /* batches of an iteration that this rank computes */
    int32_t ranks; /* of the job */
    bool is_gpu;
    int64_t shared;        /* of a batch that another rank reads */
    int64_t batches, host; /* batch_source_ops.plan */
};

/* Bytes. */
struct memory_plan {
    bool is_gpu;
    int64_t base, params, grads, optimizer, activations, work, batches;
    int64_t gathered; /* of sharded weights: units that are whole */
    int64_t runtime;  /* of a GPU: CUDA's own and NCCL's, see RUNTIME_MIB */
    int64_t total;    /* of these: on the device */
    int64_t host;     /* beside it */
};

/* The type of a job's weights; tf32 is a way to multiply fp32. */
enum dtype memory_plan_dtype(const struct job_spec *s);

/* What CUDA takes of a GPU for its context and the kernels that it loads at
 * their first use, and with several ranks NCCL for its buffers, which it makes
 * at the first collective: most of it after the check, so that the plan keeps
 * it. Estimates that no GPU has confirmed. */
enum { RUNTIME_MIB = 400, RUNTIME_RANKS_MIB = 1536 };
/* Of these the smallest context that is known of, which a worker has made when
 * it asks what is left. What else is used by then may be another program's. */
enum { CONTEXT_MIB = 100 };
/* And the most that mgpu's own kernels take, which a worker loads before it
 * asks: 11 MiB of code in 18 modules, each on pages of 2 MiB. */
enum { KERNELS_MIB = 48 };

void memory_plan_make(const struct memory_ask *ask, struct memory_plan *ret);

/* "memory per rank: 812.4 MiB (base ...)", without an end of line. */
enum { MEMORY_LINE_CAP = 440 };
void memory_plan_line(const struct memory_plan *p, char *ret, size_t cap);

struct memory_room {
    int64_t gpu, gpu_all;    /* bytes left on it, and of all of it; -1: not
                                known */
    int64_t gpu_loaded;      /* by which loading kernels lowered it */
    int64_t gpu_held;        /* of a plan's bytes, taken already */
    struct memory_left host; /* of this machine */
    int32_t ranks;           /* that share the host's */
};
/* gpu_held of a process that has a context. */
int64_t memory_plan_held(const struct memory_room *room);
/* In trainer_shared.c. Loads the kernels of a GPU that tells its memory, then
 * asks for that: what room says of the GPU. Says what is loaded, and what of
 * the plan is still to be taken for CUDA and NCCL. err  as device_cuda_load()
 * and device_ops.memory */
struct trainer;
int trainer_ask_memory(const struct trainer *t, const struct memory_plan *p,
                       struct memory_room *room, struct error *err) MUST_CHECK;
struct train_refusal;
/* out  ret_refusal  only with ERR_NOMEM, and of a GPU only if it would not do
 *                   empty; NULL: not wanted
 * err  ERR_NOMEM it does not fit, with both figures */
int memory_plan_check(const struct memory_plan *p,
                      const struct memory_room *room,
                      struct train_refusal *ret_refusal,
                      struct error *err) MUST_CHECK;

#endif
