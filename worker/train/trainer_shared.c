/* trainer_shared.c - common to the parts of the trainer: the log of rank 0, and
 * the parts of a checkpoint. */
#include <stdarg.h>
#include <stdio.h>

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
