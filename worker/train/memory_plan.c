/* memory_plan.c - see memory_plan.h. */
#include "worker/train/memory_plan.h"

#include <stdio.h>

#include "worker/train/ema.h"
#include "worker/train/mixed_precision.h"
#include "worker/train/optimizer.h"
#include "worker/train/trainer.h"

/* GPU memory of an op's partial sums, at most, and of cuBLAS's workspace. */
enum { GPU_BYTES = 64 << 20 };

enum dtype memory_plan_dtype(const struct job_spec *s)
{
    static const enum dtype types[] = {
        [PRECISION_FP64] = DT_F64,  [PRECISION_FP32] = DT_F32,
        [PRECISION_TF32] = DT_F32,  [PRECISION_FP16] = DT_F16,
        [PRECISION_BF16] = DT_BF16,
    };
    return types[s->train.precision];
}

/* Gradients so far, state before an iteration. */
static int64_t extra_bytes(const struct memory_ask *a)
{
    const struct model_plan *p = &a->model;
    int64_t bytes = 0;
    if (a->parts > 1)
        bytes += p->params * (int64_t)dtype_bytes(a->dt);
    if (a->spec->train.on_nan == ON_NAN_SKIP)
        bytes += p->state * (int64_t)dtype_acc_bytes(a->dt);
    if (a->spec->train.mixed)
        bytes += mixed_bytes(p);
    return bytes;
}

void memory_plan_make(const struct memory_ask *a, struct memory_plan *ret)
{
    const struct model_plan *m = &a->model;
    struct memory_plan p = {.is_gpu = a->is_gpu,
                            .base = m->bytes_base,
                            .params = m->bytes_params,
                            .grads = m->bytes_grads,
                            .activations = m->bytes_activations,
                            .gathered = m->bytes_gathered,
                            .work = m->bytes_work,
                            .batches = a->batches,
                            .host = a->host};
    p.optimizer = optimizer_bytes(a->spec, a->dt, m->params, m->ranges) +
                  ema_bytes(m, a->dt, a->spec->train.ema.decay) +
                  extra_bytes(a) + a->shared;
    if (a->is_gpu) {
        p.work += m->bytes_scratch + GPU_BYTES;
        p.runtime = (int64_t)(a->ranks > 1 ? RUNTIME_RANKS_MIB : RUNTIME_MIB)
                    << 20;
    }
    p.total = m->bytes_total - m->bytes_work + p.work + p.optimizer +
              p.batches + p.runtime;
    *ret = p;
}

static double mib(int64_t bytes)
{
    return (double)bytes / (1 << 20);
}

void memory_plan_line(const struct memory_plan *p, char *ret, size_t cap)
{
    char base[40] = "";     /* of weights that are not trained */
    char gathered[40] = ""; /* of units that are whole */
    char runtime[40] = "";  /* of a GPU */
    if (p->base > 0)
        (void)snprintf(base, sizeof(base), "base %.1f, ", mib(p->base));
    if (p->gathered > 0)
        (void)snprintf(gathered, sizeof(gathered), "gathered %.1f, ",
                       mib(p->gathered));
    if (p->runtime > 0)
        (void)snprintf(runtime, sizeof(runtime), ", CUDA and NCCL %.1f",
                       mib(p->runtime));
    (void)snprintf(
        ret, cap,
        "memory per rank: %.1f MiB (%sparameters %.1f, gradients %.1f, "
        "optimizer %.1f, %sactivations %.1f, work %.1f, batches %.1f%s), "
        "and %.1f MiB of the host's for batches to come",
        mib(p->total), base, mib(p->params), mib(p->grads), mib(p->optimizer),
        gathered, mib(p->activations), mib(p->work), mib(p->batches), runtime,
        mib(p->host));
}

static void note_refusal(struct train_refusal *ret, int64_t needed,
                         int64_t available, bool is_host)
{
    if (ret != NULL)
        *ret = (struct train_refusal){.needed_bytes = needed,
                                      .available_bytes = available,
                                      .is_host = is_host};
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* No more than is used at all: a driver may take less. Another program may have
 * taken memory while kernels were loaded. */
int64_t memory_plan_held(const struct memory_room *room)
{
    const int64_t most = (int64_t)KERNELS_MIB << 20;
    const int64_t context = (int64_t)CONTEXT_MIB << 20;
    const int64_t used = room->gpu_all - room->gpu;
    if (room->gpu < 0 || room->gpu_all < room->gpu)
        return 0;
    return least(used, context + least(room->gpu_loaded, most));
}

int memory_plan_check(const struct memory_plan *p,
                      const struct memory_room *room,
                      struct train_refusal *ret_refusal, struct error *err)
{
    const int64_t host = p->host + (p->is_gpu ? 0 : p->total);
    const struct memory_left *m = &room->host;
    const int64_t gpu = p->total - room->gpu_held; /* to be taken */
    if (p->is_gpu && room->gpu >= 0 && gpu > room->gpu) {
        /* Other programs may free memory later: refuse for good only what
         * exceeds the whole GPU. */
        if (room->gpu_all >= 0 && p->total > room->gpu_all)
            note_refusal(ret_refusal, p->total, room->gpu_all, false);
        return error_set(
            err, ERR_NOMEM,
            "%.1f MiB do not fit in the %.1f MiB that this GPU has "
            "left%s",
            mib(gpu), mib(room->gpu),
            room->gpu_held == 0    ? ""
            : room->gpu_loaded > 0 ? " beside CUDA's context and kernels"
                                   : " beside CUDA's context");
    }
    if (m->bytes >= 0 && host > m->bytes / room->ranks) {
        note_refusal(ret_refusal, host, m->bytes / room->ranks, true);
        return error_set(
            err, ERR_NOMEM,
            "%d rank%s of %.1f MiB do not fit in the %.1f MiB "
            "that this %s has left",
            room->ranks, room->ranks == 1 ? "" : "s", mib(host), mib(m->bytes),
            m->is_share ? "job's share of the machine" : "machine");
    }
    return 0;
}
