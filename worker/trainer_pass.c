/* trainer_pass.c - from the data to the gradient of one iteration.
 *
 * An iteration is train.gradient_accumulation_steps batches per rank, one
 * after the other. Rank r of R with k of them stands for ranks r * k to
 * r * k + k - 1 of R * k: it takes their samples and their streams of
 * dropout. The gradient is the mean over all samples of all of them, so that
 * any R and k of the same product give the same one, to rounding.
 *
 * The gradients of a batch overwrite those of the batch before, which are
 * kept in t->partial and added when the last one's are ready, piece by piece
 * and just before a piece goes out to the other ranks.
 */
#include "worker/ranges.h"
#include "worker/trainer_impl.h"

static double now_s(const struct trainer *t)
{
    return t->env->clock->now_s(t->env->clock);
}

/* A stream of its own for each iteration and batch of it (SplitMix64's
 * finaliser spreads neighbouring numbers over all 64 bits). */
static uint64_t dropout_seed(const struct trainer *t, int32_t part)
{
    uint64_t x = (uint64_t)t->at.seed * 0x9e3779b97f4a7c15u +
                 (uint64_t)t->at.iteration * (uint64_t)t->train_sampler.size +
                 (uint64_t)(t->train_sampler.rank + part);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* backward()'s callback for the last batch. */
static int last_ready(void *arg, int64_t first, int64_t count,
                      struct error *err)
{
    struct trainer *t = arg;
    size_t size = dtype_bytes(t->dt);
    char *to = (char *)model_grads(t->model) + (size_t)first * size;
    if (t->partial != NULL &&
        t->dev->ops->add(t->dev, t->dt, to,
                         (const char *)t->partial + (size_t)first * size, count,
                         err) < 0)
        return -1;
    return buckets_on_ready(&t->buckets, first, count, err);
}

/* What the batches before the last one leave. */
static int keep_gradient(struct trainer *t, int32_t part, struct error *err)
{
    const struct device_ops *ops = t->dev->ops;
    int64_t n = model_planned(t->model)->params;
    const void *grads = model_grads(t->model);
    return part == 0 ? ops->copy(t->dev, t->partial, grads,
                                 (size_t)n * dtype_bytes(t->dt), err)
                     : ops->add(t->dev, t->dt, t->partial, grads, n, err);
}

static int backward(struct trainer *t, struct metric_iteration *m, int32_t part,
                    int32_t n, struct error *err)
{
    bool is_last = part == t->train_feed.parts - 1;
    double start_s = now_s(t);
    double scale = t->at.loss_scale.scale /
                   ((double)n * t->train_sampler.size * trainer_copies(t));
    if (model_backward(t->model, n, scale, is_last ? last_ready : NULL, t,
                       err) < 0 ||
        (!is_last && keep_gradient(t, part, err) < 0) ||
        t->dev->ops->sync(t->dev, err) < 0)
        return -1;
    m->t_backward += now_s(t) - start_s - t->buckets.busy_s;
    return 0;
}

static int one_batch(struct trainer *t, int32_t part,
                     struct metric_iteration *m, double *loss_sum,
                     struct error *err)
{
    struct loader_batch b;
    const struct device_ops *ops = t->dev->ops;
    int64_t hits = 0;
    double loss = 0;
    double asked_s = now_s(t);
    range_begin("data");
    if (trainer_share_batch(t, part, &b, err) < 0)
        return -1;
    m->samples += b.valid;
    t->asked += (double)b.n * t->env->comm->size;
    m->t_data += b.data_s;
    double queued_s = now_s(t);
    m->t_comm += trainer_is_dp(t) ? queued_s - asked_s - b.data_s - b.h2d_s : 0;
    if (ops->sync(t->dev, err) < 0) /* pinned memory is copied later */
        return -1;
    double start_s = now_s(t);
    range_end();
    range_begin("forward");
    m->t_h2d += b.h2d_s + (start_s - queued_s);
    if (model_forward(t->model, b.x, b.label, b.n, true, dropout_seed(t, part),
                      err) < 0 ||
        ops->sync(t->dev, err) < 0)
        return -1;
    m->t_forward += now_s(t) - start_s;
    range_end();
    range_begin("backward");
    if (backward(t, m, part, b.n, err) < 0 ||
        model_result(t->model, b.n, &loss, &hits, err) < 0)
        return -1;
    range_end();
    *loss_sum += loss;
    return 0;
}

/* dp: all gradients to rank 0. The buckets have no communicator then. */
static int gather(struct trainer *t, struct metric_iteration *m,
                  struct error *err)
{
    double start_s = now_s(t);
    if (!trainer_is_dp(t))
        return 0;
    if (comm_reduce_now(t->comm, model_grads(t->model),
                        (size_t)model_planned(t->model)->params,
                        t->buckets.type, 0, TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "gradients");
    m->t_comm += now_s(t) - start_s;
    return 0;
}

int trainer_pass(struct trainer *t, struct metric_iteration *m,
                 double *ret_loss_sum, struct error *err)
{
    double loss_sum = 0;
    t->asked = t->valid = 0;
    if (t->running != NULL &&
        t->dev->ops->copy(t->dev, t->running, model_running(t->model),
                          (size_t)model_planned(t->model)->running *
                              dtype_acc_bytes(t->dt),
                          err) < 0)
        return -1;
    buckets_begin(&t->buckets);
    for (int32_t part = 0; part < t->train_feed.parts; part++)
        if (one_batch(t, part, m, &loss_sum, err) < 0)
            return -1;
    range_begin("gradients");
    if (buckets_finish(&t->buckets, err) < 0 || gather(t, m, err) < 0)
        return -1;
    range_end();
    m->t_comm += t->buckets.busy_s;
    *ret_loss_sum = loss_sum;
    return 0;
}
