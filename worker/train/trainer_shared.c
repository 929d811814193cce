/* trainer_shared.c - common to the parts of the trainer: the log of rank 0,
 * what a GPU has left, the optimizer, and the parts of a checkpoint. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels/module_load.h"
#include "worker/train/memory_plan.h"
#include "worker/train/optimizer_state8.h"
#include "worker/train/trainer_internal.h"

void trainer_say(const struct trainer *t, const char *fmt, ...)
{
    char line[400];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    if (n < 0 || t->env->comm->rank != 0)
        return;
    (void)puts(line);
    (void)fflush(stdout); /* into a log that a user follows */
}

static void say_loaded(const struct trainer *t, const struct memory_plan *p,
                       const struct memory_room *room,
                       const struct module_load *l)
{
    const double mib = 1 << 20;
    const double left = (double)(p->runtime - room->gpu_held) / mib;
    char refused[80] = "";
    if (l->refused != 0)
        (void)snprintf(refused, sizeof(refused),
                       "; the others at their first use (CUDA error %d)",
                       l->refused);
    if (l->kernels == 0 && l->refused == 0)
        trainer_say(t,
                    "kernels load at their first use, this driver is older "
                    "than CUDA 12.4: %.1f MiB are kept for CUDA and NCCL",
                    left);
    else
        trainer_say(t,
                    "%d kernels were loaded, %.1f MiB%s: %.1f MiB are kept for "
                    "CUDA and NCCL",
                    l->kernels, (double)l->bytes / mib, refused, left);
}

int trainer_ask_memory(const struct trainer *t, const struct memory_plan *p,
                       struct memory_room *room, struct error *err)
{
    struct module_load l;
    size_t left, all;
    if (device_cuda_load(t->dev, &l, err) < 0 ||
        t->dev->ops->memory(t->dev, &left, &all, err) < 0)
        return -1;
    room->gpu = (int64_t)left;
    room->gpu_all = (int64_t)all;
    room->gpu_loaded = l.bytes;
    room->gpu_held = memory_plan_held(room);
    say_loaded(t, p, room, &l);
    return 0;
}

int trainer_open_optimizer(struct trainer *t, struct error *err)
{
    const int32_t n = model_ranges(t->model, NULL, 0);
    struct model_range *m = calloc((size_t)n + 1, sizeof(*m));
    struct optimizer_range *r = calloc((size_t)n + 1, sizeof(*r));
    int rc = m == NULL || r == NULL ? error_set(err, ERR_NOMEM, "ranges") : 0;
    if (rc == 0)
        (void)model_ranges(t->model, m, n);
    for (int32_t i = 0; i < n && rc == 0; i++)
        r[i] = (struct optimizer_range){.first = m[i].first,
                                        .count = m[i].count,
                                        .is_exempt = m[i].is_norm_bias};
    if (rc == 0)
        rc = optimizer_init(&t->optimizer, t->dev, t->spec,
                            t->spec->train.mixed ? DT_F32 : t->dt,
                            model_planned(t->model)->params, r, n, err);
    free(m);
    free(r);
    return rc;
}

static int show_mean(void *arg, bool on, struct error *err)
{
    return ema_show(arg, on, err);
}

struct checkpoint_parts trainer_parts(struct trainer *t)
{
    struct optimizer *o = &t->optimizer;
    const bool is_8bit = optimizer_is_8bit(t->spec);
    struct checkpoint_parts p = {
        .dev = t->dev, .model = t->model, .dt = t->dt, .exchange = t->exchange};
    for (int32_t i = 0; i < o->n_state && is_8bit; i++)
        p.arrays[p.n++] = (struct checkpoint_array){
            .name = i == 0 ? "exp_avg_absmax" : "exp_avg_sq_absmax",
            .data = o->state[i].most,
            .n = o->blocks,
            .fetch = state8_fetch,
            .store = state8_store,
            .arg = o,
            .i = o->n_state + i};
    for (int32_t i = 0; i < o->n_state; i++)
        p.arrays[p.n++] =
            (struct checkpoint_array){.name = o->state[i].name,
                                      .data = o->state[i].data,
                                      .n = o->n,
                                      .fetch = is_8bit ? state8_fetch : NULL,
                                      .store = is_8bit ? state8_store : NULL,
                                      .arg = o,
                                      .i = i};
    if (t->mixed.dev != NULL)
        p.arrays[p.n++] =
            (struct checkpoint_array){.name = "weights",
                                      .data = t->mixed.weights,
                                      .n = model_planned(t->model)->params};
    if (t->ema.dev != NULL) {
        const struct model_plan *plan = model_planned(t->model);
        p.arrays[p.n++] = (struct checkpoint_array){
            .name = "ema", .data = t->ema.mean, .n = plan->params};
        if (plan->state > 0)
            p.arrays[p.n++] = (struct checkpoint_array){
                .name = "ema_running", .data = t->ema.state, .n = plan->state};
        p.show = show_mean;
        p.arg = &t->ema;
    }
    return p;
}
