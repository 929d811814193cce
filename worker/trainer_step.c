/* trainer_step.c - one iteration, its row, and the evaluation.
 *
 * The phases of a row add up to t_iter but for a few microseconds. t_comm is
 * what communication cost this rank: the time inside the collectives that
 * backward() did not hide, and the wait for slower ranks. On a GPU each
 * phase ends with a synchronisation, without which the times would be those
 * of enqueueing. */
#include <math.h>

#include "worker/schedule.h"
#include "worker/trainer_impl.h"

static double now_s(const struct trainer *t)
{
    return t->env->clock->now_s(t->env->clock);
}

/* A stream of its own for each iteration and rank (SplitMix64's finaliser
 * spreads neighbouring numbers over all 64 bits). */
static uint64_t dropout_seed(const struct trainer *t)
{
    uint64_t x = (uint64_t)t->at.seed * 0x9e3779b97f4a7c15u +
                 (uint64_t)t->at.iteration * (uint64_t)t->env->comm->size +
                 (uint64_t)t->env->comm->rank;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Fills in the phases up to the summed gradients. */
static int pass(struct trainer *t, struct metric_iteration *m,
                double *ret_loss_sum, struct error *err)
{
    struct loader_batch b;
    const struct device_ops *ops = t->dev->ops;
    int64_t hits = 0;
    if (trainer_batch(t, &t->train_feed, t->at.batch, &b, err) < 0)
        return -1;
    int32_t n = b.n;
    m->samples = b.valid;
    m->t_data = b.data_s;
    double queued_s = now_s(t);
    if (ops->sync(t->dev, err) < 0) /* pinned memory is copied later */
        return -1;
    double start_s = now_s(t);
    m->t_h2d = b.h2d_s + (start_s - queued_s);
    if (model_forward(t->model, b.x, b.label, n, true, dropout_seed(t), err) <
            0 ||
        ops->sync(t->dev, err) < 0)
        return -1;
    double forward_s = now_s(t);
    m->t_forward = forward_s - start_s;
    /* The mean over the ranks of each rank's mean; all have the same n, but
     * for what could not be read. */
    double scale = b.valid ? 1.0 / ((double)b.valid * t->env->comm->size) : 0;
    buckets_begin(&t->buckets);
    if (model_backward(t->model, n, scale, buckets_on_ready, &t->buckets, err) <
            0 ||
        ops->sync(t->dev, err) < 0)
        return -1;
    m->t_backward = now_s(t) - forward_s - t->buckets.busy_s;
    if (model_result(t->model, n, ret_loss_sum, &hits, err) < 0 ||
        buckets_finish(&t->buckets, err) < 0)
        return -1;
    m->t_comm = t->buckets.busy_s;
    return 0;
}

static int update(struct trainer *t, struct metric_iteration *m,
                  struct error *err)
{
    const struct job_spec *s = t->spec;
    double start_s = now_s(t);
    m->lr = s->train.optimizer.lr *
            schedule_factor(s, t->at.iteration, t->batches, t->total);
    if (optimizer_step(&t->optimizer, model_params(t->model),
                       model_grads(t->model), t->at.iteration + 1, m->lr, 1,
                       err) < 0 ||
        t->dev->ops->sync(t->dev, err) < 0)
        return -1;
    m->t_optimizer = now_s(t) - start_s;
    return 0;
}

/* Losses and wishes to stop, summed over the ranks in one go. */
static int agree(struct trainer *t, struct metric_iteration *m, double loss_sum,
                 struct agreed *ret, struct error *err)
{
    double start_s = now_s(t);
    bool fenced = reporter_is_fenced(t->env->reporter, NULL);
    double v[5] = {loss_sum, (double)m->samples, *t->env->stop != 0 ? 1 : 0,
                   fenced ? 1 : 0, *t->env->save != 0 ? 1 : 0};
    if (comm_all_reduce_now(t->env->comm, v, 5, COMM_F64, COMM_SUM,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    m->t_comm += now_s(t) - start_s;
    if (v[1] <= 0)
        return error_set(err, ERR_INVAL, "none of the images can be read");
    *ret = (struct agreed){.loss = v[0] / v[1],
                           .stop = v[2] > 0,
                           .fenced = v[3] > 0,
                           .save = v[4] > 0};
    t->at.loss_sum += v[0];
    t->at.samples += (int64_t)v[1];
    return 0;
}

static void report(struct trainer *t, const struct metric_iteration *m)
{
    struct metric_row row = {.kind = METRIC_ITERATION, .iteration = *m};
    reporter_row(t->env->reporter, &row);
    t->progress =
        (struct report_progress){.iteration = t->at.iteration,
                                 .iterations_total = t->total,
                                 .epoch = t->at.epoch,
                                 .epochs_total = t->spec->train.epochs,
                                 .loss = m->loss,
                                 .t_iter = m->t_iter,
                                 .eval_accuracy = t->eval_accuracy};
    reporter_progress(t->env->reporter, &t->progress);
}

int trainer_step(struct trainer *t, struct agreed *ret, struct error *err)
{
    const struct clock *clock = t->env->clock;
    struct metric_iteration m = {.rank = t->env->comm->rank,
                                 .epoch = t->at.epoch,
                                 .iteration = t->at.iteration + 1,
                                 .started_at = clock->wall_s(clock),
                                 .tokens = -1,
                                 .gpu_mem_bytes = -1};
    double start_s = now_s(t), loss_sum = 0;
    if (pass(t, &m, &loss_sum, err) < 0 || update(t, &m, err) < 0 ||
        agree(t, &m, loss_sum, ret, err) < 0)
        return error_wrap(err, "iteration %lld", (long long)m.iteration);
    if (!t->dev->host_memory)
        m.gpu_mem_bytes = t->bytes;
    m.loss = ret->loss;
    m.t_iter = now_s(t) - start_s;
    t->at.iteration++;
    t->at.batch++;
    t->at.epoch_s += m.t_iter;
    report(t, &m);
    if (!isfinite(ret->loss))
        return error_set(err, ERR_STATE,
                         "iteration %lld: the loss is not a number: lower "
                         "train.optimizer.lr or look at the data",
                         (long long)m.iteration);
    return 0;
}

/* An evaluation may take longer than the grace after a signal. */
static int agree_to_go_on(struct trainer *t, struct agreed *ret,
                          struct error *err)
{
    int64_t v[2] = {*t->env->stop != 0,
                    reporter_is_fenced(t->env->reporter, NULL)};
    if (comm_all_reduce_now(t->env->comm, v, 2, COMM_I64, COMM_MAX,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    *ret = (struct agreed){.stop = v[0] > 0, .fenced = v[1] > 0};
    return 0;
}

struct sums {
    double loss;
    int64_t counts[3]; /* hits, samples, left out since the last time */
};

static int evaluate_batch(struct trainer *t, int32_t i, struct sums *s,
                          struct error *err)
{
    struct loader_batch b;
    double loss = 0;
    int64_t hits = 0;
    if (trainer_batch(t, &t->eval_feed, i, &b, err) < 0 ||
        model_forward(t->model, b.x, b.label, b.n, false, 0, err) < 0 ||
        model_result(t->model, b.n, &loss, &hits, err) < 0)
        return -1;
    s->loss += loss;
    s->counts[0] += hits;
    s->counts[1] += b.valid;
    return 0;
}

int trainer_evaluate(struct trainer *t, struct evaluation *ret,
                     struct agreed *ret_agreed, struct error *err)
{
    size_t running = (size_t)model_planned(t->model)->running;
    struct comm *c = t->env->comm;
    struct sums s = {.loss = 0};
    struct agreed a = {.stop = false};
    if (comm_broadcast_now(t->comm, model_running(t->model),
                           running * dtype_acc_bytes(t->dt), 0,
                           TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "evaluation");
    for (int32_t i = 0; i < t->eval_feed.end && !a.stop && !a.fenced; i++)
        if (evaluate_batch(t, i, &s, err) < 0 || agree_to_go_on(t, &a, err) < 0)
            return error_wrap(err, "evaluation");
    *ret_agreed = a;
    if (a.stop || a.fenced)
        return 0;
    s.counts[2] = t->bad;
    t->bad = 0;
    if (comm_all_reduce_now(c, s.counts, 3, COMM_I64, COMM_SUM,
                            TRAIN_DEADLINE_S, err) < 0 ||
        comm_all_reduce_now(c, &s.loss, 1, COMM_F64, COMM_SUM, TRAIN_DEADLINE_S,
                            err) < 0)
        return error_wrap(err, "evaluation");
    if (s.counts[1] == 0)
        return error_set(err, ERR_INVAL,
                         "evaluation: none of the images can be read");
    *ret = (struct evaluation){.loss = s.loss / (double)s.counts[1],
                               .accuracy =
                                   (double)s.counts[0] / (double)s.counts[1],
                               .bad = s.counts[2]};
    return 0;
}
