/* trainer_graph.c - the device calls of an iteration, and their graphs.
 *
 * On a device that can capture (kernels/device.h), the calls of a whole batch
 * of the usual size are captured once and launched from then on, one graph
 * for forward and backward pass together. With several ranks it is cut where
 * a piece of the gradients goes out to the others, so that NCCL stays outside
 * and overlaps the rest. Where nothing on the host has to be decided between
 * the gradient and the change of the weights, that change is in the same
 * graph: then a step is one launch. An odd batch, the last of an epoch, calls
 * the device as ever. If a capture fails, which a driver may surprise us with,
 * nothing of it has run: the calls are made one by one, and so are all later
 * ones.
 *
 * The phases are timed by marks on the device, or without them by the clock
 * and a synchronisation each.
 */
#include <assert.h>
#include <string.h>

#include "jobs/base/log.h"
#include "worker/profile/trace_ranges.h"
#include "worker/train/trainer_internal.h"

static double now_s(const struct trainer *t)
{
    return t->env->clock->now_s(t->env->clock);
}

int trainer_mark(struct trainer *t, enum phase p, struct error *err)
{
    static_assert((int)PHASES <= (int)MODEL_MARK, "marks are not shared");
    if (t->dev->ops->mark != NULL)
        return t->dev->ops->mark(t->dev, (int32_t)p, err);
    if (t->dev->ops->sync(t->dev, err) < 0)
        return -1;
    t->phase_s[p] = now_s(t);
    return 0;
}

int trainer_between(struct trainer *t, enum phase from, enum phase to,
                    double *ret_s, struct error *err)
{
    if (t->dev->ops->elapsed != NULL)
        return t->dev->ops->elapsed(t->dev, (int32_t)from, (int32_t)to, ret_s,
                                    err);
    *ret_s = t->phase_s[to] - t->phase_s[from];
    return 0;
}

void trainer_open_replays(struct trainer *t)
{
    const struct job_spec *s = t->spec;
    for (int32_t i = 0; i < PASS_KINDS; i++)
        device_graph_init(&t->pass[i].replay, t->dev);
    device_graph_init(&t->update, t->dev);
    device_graph_init(&t->eval_pass.replay, t->dev);
    t->can_fuse = t->update.dev != NULL && t->env->comm->size == 1 &&
                  t->parts == 1 && s->train.clip_grad_norm <= 0 &&
                  s->train.on_nan == ON_NAN_FAIL &&
                  !(t->mixed.dev != NULL && t->dt == DT_F16);
}

void trainer_close_replays(struct trainer *t)
{
    for (int32_t i = 0; i < PASS_KINDS; i++)
        device_graph_clear(&t->pass[i].replay);
    device_graph_clear(&t->update);
    device_graph_clear(&t->eval_pass.replay);
}

/* The end of a capture. false: nothing of it has run, make the calls, which is
 * slower and right. */
static bool is_captured(struct trainer *t, struct replay *r, bool failed,
                        struct error *why)
{
    t->sol.has_captured = true;
    if (device_graph_end(r, failed, why) < 0) {
        log_warn("worker",
                 "a step cannot be captured, operations are launched one by "
                 "one rank=%d why=\"%s\"",
                 t->env->comm->rank, why->msg);
        trainer_close_replays(t); /* so it is said once */
        t->can_fuse = false;
        return false;
    }
    if (!t->has_graphs)
        trainer_say(t, "iterations run as CUDA graphs");
    t->has_graphs = true;
    return true;
}

/* ---- the change of the weights ---------------------------------------------
 */

/* All ranks have an optimizer, but with dp rank 0 alone. */
static bool has_optimizer(const struct trainer *t)
{
    return t->env->comm->rank == 0 || !trainer_is_dp(t);
}

/* Makes the next forward pass's weights, after the optimizer. */
static int give(struct trainer *t, bool is_first, struct error *err)
{
    if (t->mixed.dev != NULL && mixed_give_weights(&t->mixed, err) < 0)
        return -1;
    return ema_update(&t->ema, is_first, err);
}

static int step_only(struct trainer *t, struct error *err)
{
    bool mixed = t->mixed.dev != NULL;
    return optimizer_step_only(
        &t->optimizer, mixed ? t->mixed.weights : model_params(t->model),
        mixed ? t->mixed.grads : model_grads(t->model), err);
}

static int update_calls(struct trainer *t, struct error *err)
{
    if (step_only(t, err) < 0 || give(t, t->at.updates == 0, err) < 0)
        return -1;
    return trainer_mark(t, PHASE_END, err);
}

int trainer_update(struct trainer *t, double lr, double grad_scale,
                   int (*between)(struct trainer *t, struct error *err),
                   struct error *err)
{
    if (trainer_mark(t, PHASE_UPDATE, err) < 0)
        return -1;
    if (has_optimizer(t) && optimizer_put(&t->optimizer, t->at.updates + 1, lr,
                                          grad_scale, err) < 0)
        return -1;
    if (between != NULL) { /* the host is needed: nothing to capture */
        if ((has_optimizer(t) && step_only(t, err) < 0) ||
            between(t, err) < 0 || give(t, t->at.updates == 0, err) < 0)
            return -1;
        return trainer_mark(t, PHASE_END, err);
    }
    struct error why = ERROR_INIT;
    switch (device_graph_next(&t->update)) {
    case REPLAY_CAPTURE:
        if (!is_captured(t, &t->update,
                         device_graph_begin(&t->update, &why) < 0 ||
                             update_calls(t, &why) < 0,
                         &why))
            break;
        return device_graph_piece(&t->update, 0, err);
    case REPLAY_LAUNCH:
        return device_graph_piece(&t->update, 0, err);
    case REPLAY_RUN:
        break;
    }
    return update_calls(t, err);
}

/* ---- the passes -----------------------------------------------------------
 */

enum { PASS_FIRST, PASS_MIDDLE, PASS_LAST };

/* One batch on its way through the model. */
struct going {
    struct trainer *t;
    int32_t part;
    bool is_last;
    bool fuses;             /* the update is part of it */
    struct replay *capture; /* NULL: not captured */
    struct buckets planned; /* in a capture: as if they had been handed over */
    int64_t low;            /* gradients from here on are handed over */
};

static int add_partial(struct trainer *t, int64_t first, int64_t count,
                       struct error *err)
{
    size_t size = dtype_bytes(t->dt), at = (size_t)first * size;
    if (t->partial == NULL)
        return 0;
    return t->dev->ops->add(t->dev, t->dt, (char *)model_grads(t->model) + at,
                            (const char *)t->partial + at, count, err);
}

/* train.optimizer_in_bwd: the ranks' sum of a part, and the change that follows
 * from it. A share has been summed up already. */
static int update_part(struct trainer *t, int64_t first, int64_t count,
                       struct error *err)
{
    void *grads = t->model->ops->part(t->model, first);
    const double start_s = now_s(t);
    if (t->exchange == NULL) {
        if (comm_all_reduce_now(t->comm, grads, (size_t)count,
                                comm_type_of(t->dt), COMM_SUM, TRAIN_DEADLINE_S,
                                err) < 0)
            return error_wrap(err, "gradients");
        t->buckets.busy_s += now_s(t) - start_s;
    }
    if (t->mixed.dev == NULL)
        return optimizer_step_part(&t->optimizer, model_params(t->model), grads,
                                   first, count, err);
    if (mixed_take_part(&t->mixed, grads, count, err) < 0 ||
        optimizer_step_part(&t->optimizer, t->mixed.weights, t->mixed.grads,
                            first, count, err) < 0)
        return -1;
    return mixed_give_part(&t->mixed, first, count, err);
}

/* backward()'s callback for the last batch. */
static int last_ready(void *arg, int64_t first, int64_t count,
                      struct error *err)
{
    struct going *g = arg;
    struct trainer *t = g->t;
    if (model_planned(t->model)->parts > 0)
        return update_part(t, first, count, err);
    if (add_partial(t, first, count, err) < 0)
        return -1;
    if (g->capture == NULL)
        return buckets_on_ready(&t->buckets, first, count, err);
    if (!buckets_are_due(&g->planned, first) ||
        !device_graph_can_cut(g->capture))
        return 0;
    buckets_suppose(&g->planned, first);
    if (device_graph_cut(g->capture, first, err) < 0)
        return -1;
    return device_graph_begin(g->capture, err);
}

/* Sums the gradients of the batches before the last one. */
static int keep_gradient(struct trainer *t, int32_t part, struct error *err)
{
    const struct device_ops *ops = t->dev->ops;
    int64_t n = model_planned(t->model)->params;
    const void *grads = model_grads(t->model);
    return part == 0 ? ops->copy(t->dev, t->partial, grads,
                                 (size_t)n * dtype_bytes(t->dt), err)
                     : ops->add(t->dev, t->dt, t->partial, grads, n, err);
}

static int forward_calls(struct trainer *t, const struct batch *b,
                         struct error *err)
{
    range_begin("forward");
    int rc = model_forward(t->model, b, true, err);
    rc = rc < 0 ? rc : trainer_mark(t, PHASE_BACKWARD, err);
    range_end();
    return rc;
}

static int backward_calls(struct going *g, const struct batch *b,
                          struct error *err)
{
    struct trainer *t = g->t;
    range_begin("backward");
    int rc =
        model_backward(t->model, b, g->is_last ? last_ready : NULL, g, err);
    if (rc == 0 && !g->is_last)
        rc = keep_gradient(t, g->part, err);
    rc = rc < 0 ? rc : trainer_mark(t, PHASE_DONE, err);
    range_end();
    return rc;
}

static int pass_calls(struct going *g, const struct batch *b, struct error *err)
{
    struct trainer *t = g->t;
    if (trainer_mark(t, PHASE_FORWARD, err) < 0 ||
        forward_calls(t, b, err) < 0 || backward_calls(g, b, err) < 0)
        return -1;
    if (model_planned(t->model)->parts > 0)
        return trainer_mark(t, PHASE_END, err);
    if (!g->fuses)
        return 0;
    if (t->mixed.dev != NULL && mixed_take_grads(&t->mixed, err) < 0)
        return -1;
    return update_calls(t, err);
}

/* The gradients that no cut has handed over. */
static int hand_rest(struct going *g, struct error *err)
{
    struct trainer *t = g->t;
    if (!g->is_last)
        return 0;
    return buckets_on_ready(&t->buckets, 0, g->low, err);
}

static int launch(struct going *g, const struct pass *p, const struct batch *b,
                  struct error *err)
{
    struct trainer *t = g->t;
    const struct replay *r = &p->replay;
    range_begin("launch");
    for (int32_t i = 0; i < r->n; i++) {
        if (device_graph_piece(g->capture, i, err) < 0)
            return -1;
        if (i + 1 == r->n)
            break;
        if (buckets_on_ready(&t->buckets, r->notes[i], g->low - r->notes[i],
                             err) < 0)
            return -1;
        g->low = r->notes[i];
    }
    range_end();
    model_repeat(t->model, b, true);
    return hand_rest(g, err);
}

static int capture(struct going *g, const struct pass *p, const struct batch *b,
                   struct error *err)
{
    struct trainer *t = g->t;
    struct error why = ERROR_INIT;
    g->planned = t->buckets;
    if (is_captured(t, g->capture,
                    device_graph_begin(g->capture, &why) < 0 ||
                        pass_calls(g, b, &why) < 0,
                    &why))
        return launch(g, p, b, err);
    g->capture = NULL;
    g->fuses = t->has_updated = false;
    return pass_calls(g, b, err);
}

/* A graph contains addresses and shapes: it does not fit a batch at another
 * address or of another size. */
static bool fits(const struct trainer *t, const struct pass *p,
                 const struct batch *b)
{
    bool same = true;
    for (int32_t i = 0; i < BATCH_ARRAYS && p->replay.is_kept; i++)
        same = same && p->arrays[i].data == b->arrays[i].data &&
               p->arrays[i].bytes == b->arrays[i].bytes;
    return p->replay.dev != NULL && t->model->ops->can_repeat && same &&
           b->n == t->spec->train.batch_size;
}

/* Nor one with an update in it a batch whose gradient has to be scaled. */
static bool is_usual(const struct trainer *t, const struct pass *p,
                     const struct batch *b)
{
    return fits(t, p, b) &&
           (!t->can_fuse || b->weight == b->n * t->data.sample_weight);
}

int trainer_run_batch(struct trainer *t, int32_t part, const struct batch *b,
                      uint64_t seed, double scale, double lr, struct error *err)
{
    int32_t parts = t->parts;
    int32_t kind = part == parts - 1 ? PASS_LAST
                   : part == 0       ? PASS_FIRST
                                     : PASS_MIDDLE;
    struct pass *p = &t->pass[kind];
    struct going g = {.t = t,
                      .part = part,
                      .is_last = kind == PASS_LAST,
                      .low = model_planned(t->model)->params};
    enum replay_what what =
        is_usual(t, p, b) ? device_graph_next(&p->replay) : REPLAY_RUN;
    if (model_put(t->model, seed, scale, err) < 0)
        return -1;
    if (what == REPLAY_RUN)
        return pass_calls(&g, b, err);
    g.capture = &p->replay;
    g.fuses = t->can_fuse;
    t->has_updated = g.fuses;
    /* No sample was left out and nothing is clipped: the scale is 1. */
    if (g.fuses &&
        optimizer_put(&t->optimizer, t->at.updates + 1, lr, 1, err) < 0)
        return -1;
    memcpy(p->arrays, b->arrays, sizeof(p->arrays));
    return what == REPLAY_LAUNCH ? launch(&g, p, b, err)
                                 : capture(&g, p, b, err);
}

/* ---- an evaluation's --------------------------------------------------------
 */

static int eval_calls(struct trainer *t, const struct batch *b,
                      struct error *err)
{
    return model_forward(t->model, b, false, err);
}

int trainer_run_eval(struct trainer *t, const struct batch *b,
                     struct error *err)
{
    struct pass *p = &t->eval_pass;
    struct replay *r = &p->replay;
    struct error why = ERROR_INIT;
    switch (fits(t, p, b) ? device_graph_next(r) : REPLAY_RUN) {
    case REPLAY_CAPTURE:
        memcpy(p->arrays, b->arrays, sizeof(p->arrays));
        if (!is_captured(t, r,
                         device_graph_begin(r, &why) < 0 ||
                             eval_calls(t, b, &why) < 0,
                         &why))
            break;
        return device_graph_piece(r, 0, err);
    case REPLAY_LAUNCH:
        model_repeat(t->model, b, false);
        return device_graph_piece(r, 0, err);
    case REPLAY_RUN:
        break;
    }
    return eval_calls(t, b, err);
}
