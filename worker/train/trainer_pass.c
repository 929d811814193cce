/* trainer_pass.c - compute the gradient of one iteration from its data.
 *
 * An iteration is train.gradient_accumulation_steps batches per rank, or the
 * rank's share of train.global_batch_size, one after the other. Rank r of R
 * with k of them stands for ranks r * k to r * k + k - 1 of R * k: it takes
 * their samples and their streams of dropout. The gradient is the mean over all
 * samples of all of them, so that any R and k of the same product give the same
 * one, to rounding.
 *
 * The gradients of a batch overwrite those of the batch before, which are
 * kept in t->partial and added when the last one's are ready, piece by piece
 * and just before a piece goes out to the other ranks (trainer_graph.c).
 */
#include <math.h>
#include <string.h>

#include "worker/profile/trace_ranges.h"
#include "worker/train/trainer_internal.h"

static double now_s(const struct trainer *t)
{
    return t->env->clock->now_s(t->env->clock);
}

/* A stream of its own for each iteration and batch of it (SplitMix64's
 * finaliser spreads neighbouring numbers over all 64 bits). */
static uint64_t dropout_seed(const struct trainer *t, int32_t part)
{
    uint64_t x = (uint64_t)t->at.seed * 0x9e3779b97f4a7c15u +
                 (uint64_t)t->at.iteration * (uint64_t)t->streams +
                 (uint64_t)(t->first + part);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The times of a batch that is done. */
static int take_times(struct trainer *t, struct metric_iteration *m,
                      double host_s, double busy_s, struct error *err)
{
    double load_s = 0, forward_s = 0, backward_s = 0;
    double forward_wait_s, backward_wait_s;
    if (trainer_between(t, PHASE_LOAD, PHASE_FORWARD, &load_s, err) < 0 ||
        trainer_between(t, PHASE_FORWARD, PHASE_BACKWARD, &forward_s, err) <
            0 ||
        trainer_between(t, PHASE_BACKWARD, PHASE_DONE, &backward_s, err) < 0)
        return -1;
    /* Other metrics have the host's part of the load. */
    m->t_h2d += load_s > host_s ? load_s - host_s : 0;
    model_waited(t->model, &forward_wait_s, &backward_wait_s);
    m->t_forward += forward_s - forward_wait_s;
    m->t_backward +=
        (t->overlaps ? backward_s : backward_s - busy_s) - backward_wait_s;
    m->t_comm += forward_wait_s + backward_wait_s;
    return 0;
}

bool trainer_by_batch(const struct trainer *t)
{
    return t->spec->train.loss.normalize == NORMALIZE_MICRO_BATCH;
}

/* The backward pass changes the weights: prepares an update with the gradient
 * as the mean over all ranks' labelled tokens of the batch. */
static int update_ahead(struct trainer *t, struct metric_iteration *m,
                        struct error *err)
{
    const double start_s = now_s(t);
    double weight = t->weight;
    if (comm_all_reduce_now(t->env->comm, &weight, 1, COMM_F64, COMM_SUM,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    m->t_comm += now_s(t) - start_s;
    weight = nearbyint(weight);
    t->has_updated = true;
    return optimizer_put(
        &t->optimizer, t->at.updates + 1, trainer_lr(t),
        trainer_by_batch(t) || weight <= 0 ? 1 : t->asked / weight, err);
}

static int one_batch(struct trainer *t, int32_t part,
                     struct metric_iteration *m, double *loss_sum,
                     struct error *err)
{
    struct batch b;
    struct model_result r;
    if (trainer_mark(t, PHASE_LOAD, err) < 0)
        return -1;
    double asked_s = now_s(t);
    range_begin("data");
    if (trainer_share_batch(t, part, &b, err) < 0)
        return -1;
    sol_add(&t->sol, t->model, &b);
    m->samples += b.valid;
    if (b.tokens >= 0)
        m->tokens = b.tokens + (m->tokens > 0 ? m->tokens : 0);
    double weight = b.n * t->data.sample_weight; /* if nothing is left out */
    if (trainer_by_batch(t)) /* without a labelled token there is no gradient */
        weight = b.weight > 0 ? b.weight : 1;
    t->asked += weight * t->env->comm->size;
    m->t_data += b.data_s;
    double scatter_s =
        trainer_is_dp(t) ? now_s(t) - asked_s - b.data_s - b.h2d_s : 0;
    m->t_comm += scatter_s;
    range_end();
    if (model_planned(t->model)->parts > 0 && update_ahead(t, m, err) < 0)
        return -1;
    double scale =
        t->at.loss_scale.scale / (weight * t->streams * trainer_copies(t));
    if (trainer_run_batch(t, part, &b, dropout_seed(t, part), scale,
                          trainer_lr(t), err) < 0)
        return -1;
    bool is_last = part == t->parts - 1;
    double busy_s = t->buckets.busy_s;
    if ((is_last && buckets_flush(&t->buckets, err) < 0) ||
        t->source->ops->ahead(t->source, BATCH_TRAIN, err) < 0)
        return -1;
    range_begin("device"); /* waiting for what it was given */
    if (model_result(t->model, &b, &r, err) < 0 ||
        take_times(t, m, b.data_s + scatter_s, busy_s, err) < 0)
        return -1;
    range_end();
    *loss_sum += r.loss_sum;
    for (int32_t i = 0; i < MODEL_VALUES; i++)
        t->values[i] += r.values[i];
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
    sol_begin(&t->sol);
    t->asked = t->weight = t->valid = 0;
    memset(t->values, 0, sizeof(t->values));
    t->has_updated = false;
    if (t->state != NULL &&
        t->dev->ops->copy(t->dev, t->state, model_state(t->model),
                          (size_t)model_planned(t->model)->state *
                              dtype_acc_bytes(t->dt),
                          err) < 0)
        return -1;
    buckets_begin(&t->buckets);
    for (int32_t part = 0; part < t->parts; part++)
        if (one_batch(t, part, m, &loss_sum, err) < 0)
            return -1;
    range_begin("gradients");
    /* Beside the device's work it took no time until now. */
    double hidden_s = t->overlaps ? t->buckets.busy_s : 0;
    if (buckets_finish(&t->buckets, err) < 0 || gather(t, m, err) < 0)
        return -1;
    range_end();
    m->t_comm += t->buckets.busy_s - hidden_s;
    *ret_loss_sum = loss_sum;
    return 0;
}
