/* trainer_step.c - one iteration, its row, and the evaluation.
 *
 * The phases of a row add up to t_iter but for a few microseconds. t_comm is
 * what communication cost this rank: the time inside the collectives that
 * backward() did not hide, and the wait for slower ranks. On a GPU each
 * phase ends with a synchronisation, without which the times would be those
 * of enqueueing. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/log.h"
#include "worker/profile/trace_ranges.h"
#include "worker/train/lr_schedule.h"
#include "worker/train/trainer_internal.h"
#include "worker/train/trainer_profile.h"

static double now_s(const struct trainer *t)
{
    return t->env->clock->now_s(t->env->clock);
}

/* The iteration under way is due: by its number on every rank, by the clock
 * on rank 0. */
static bool wants_save(const struct trainer *t)
{
    if (*t->env->save != 0)
        return true;
    switch (t->every.unit) {
    case EVERY_STEPS:
        return (t->at.iteration + 1) % (int64_t)t->every.n == 0;
    case EVERY_SECONDS:
        return t->env->comm->rank == 0 && now_s(t) - t->saved_s >= t->every.n;
    case EVERY_EPOCHS:
        break; /* after its evaluation */
    }
    return false;
}

static int32_t n_values(const struct trainer *t)
{
    const char *const *names = t->model->ops->values;
    int32_t n = 0;
    while (names != NULL && n < MODEL_VALUES && names[n] != NULL)
        n++;
    return n;
}

/* Losses and wishes to stop, summed over the ranks in one go. */
static int agree(struct trainer *t, struct metric_iteration *m, double loss_sum,
                 struct agreed *ret, struct error *err)
{
    double start_s = now_s(t);
    range_begin("agree");
    bool fenced = reporter_is_fenced(t->env->reporter, NULL);
    int32_t values = n_values(t);
    enum { OWN = 8 };
    double v[OWN + MODEL_VALUES] = {loss_sum,
                                    t->weight,
                                    *t->env->stop != 0 ? 1 : 0,
                                    fenced ? 1 : 0,
                                    wants_save(t) ? 1 : 0,
                                    t->valid,
                                    m->tokens > 0 ? (double)m->tokens : 0,
                                    trainer_profile_is_over(t) ? 1 : 0};
    memcpy(v + OWN, t->values, (size_t)values * sizeof(*v));
    if (comm_all_reduce_now(t->env->comm, v, OWN + (size_t)values, COMM_F64,
                            COMM_SUM, TRAIN_DEADLINE_S, err) < 0)
        return -1;
    m->t_comm += now_s(t) - start_s;
    range_end();
    if (v[1] <= 0)
        return error_set(err, ERR_INVAL, "none of the %s can be read",
                         t->source->ops->noun);
    v[1] = nearbyint(v[1]); /* a third of them, three times */
    *ret = (struct agreed){.loss = v[0] / v[1],
                           .loss_sum = v[0],
                           .weight = v[1],
                           .samples = nearbyint(v[5]),
                           .tokens = v[6],
                           .stop = v[2] > 0,
                           .fenced = v[3] > 0,
                           .save = v[4] > 0,
                           .profiled = v[7] > 0};
    for (int32_t i = 0; i < values; i++)
        ret->values[i] = v[OWN + i] / v[1];
    return 0;
}

/* dp: rank 0 has the new weights. */
static int replicate(struct trainer *t, struct error *err)
{
    double start_s = now_s(t);
    bool mixed = t->mixed.dev != NULL;
    size_t size = mixed ? sizeof(float) : dtype_bytes(t->dt);
    if (comm_broadcast_now(t->comm,
                           mixed ? t->mixed.weights : model_params(t->model),
                           (size_t)model_planned(t->model)->params * size, 0,
                           TRAIN_DEADLINE_S, err) < 0)
        return error_wrap(err, "weights");
    t->replicate_s = now_s(t) - start_s;
    return 0;
}

/* A limit counts what was done, and so does a curve that ends there; steps are
 * of epochs. */
double trainer_lr(const struct trainer *t)
{
    const struct job_spec *s = t->spec;
    const bool by_limit =
        t->is_cut && s->train.lr_scheduler.name == SCHEDULE_COSINE;
    return s->train.optimizer.lr *
           (by_limit
                ? schedule_factor(s, t->at.done, t->batches,
                                  s->train.max_iterations)
                : schedule_factor(s, t->at.iteration, t->batches, t->total));
}

/* grad_scale makes the gradient the mean over the samples that could be
 * read. */
static int update(struct trainer *t, struct metric_iteration *m,
                  double grad_scale, struct error *err)
{
    double took_s = 0;
    m->lr = trainer_lr(t);
    t->replicate_s = 0;
    if (!t->has_updated &&
        trainer_update(t, m->lr, grad_scale,
                       trainer_is_dp(t) ? replicate : NULL, err) < 0)
        return -1;
    if (t->dev->ops->sync(t->dev, err) < 0 ||
        trainer_between(t, t->has_updated ? PHASE_DONE : PHASE_UPDATE,
                        PHASE_END, &took_s, err) < 0)
        return -1;
    t->at.updates++;
    t->sol.has_updated = true;
    m->t_comm += t->replicate_s;
    m->t_optimizer += took_s - t->replicate_s;
    return 0;
}

/* ---- numbers that are none ------------------------------------------------
 */

enum { SKIPS_MOST = 100, WARNINGS_MOST = 3 };

/* The model's state (the statistics of batch norms) has seen what was no
 * number. */
static int restore_state(struct trainer *t, struct error *err)
{
    if (t->state == NULL)
        return 0;
    return t->dev->ops->copy(
        t->dev, model_state(t->model), t->state,
        (size_t)model_planned(t->model)->state * dtype_acc_bytes(t->dt), err);
}

/* The loss and the gradient are the same on every rank, and so is what
 * follows from them. */
static int guard(struct trainer *t, const struct agreed *a, double norm,
                 bool *ret_skip, struct error *err)
{
    enum spec_on_nan what = t->spec->train.on_nan;
    const char *name = isfinite(a->loss) ? "gradient" : "loss";
    bool bad = !isfinite(a->loss) || !isfinite(norm);
    *ret_skip = bad && what == ON_NAN_SKIP;
    if (!bad) {
        t->skips = 0;
        return 0;
    }
    if (what == ON_NAN_FAIL || (*ret_skip && ++t->skips > SKIPS_MOST))
        return error_set(err, ERR_STATE,
                         "the %s is not a number%s: lower "
                         "train.optimizer.lr or look at the data",
                         name,
                         *ret_skip ? ", for the 101st time in a row" : "");
    if (t->env->comm->rank == 0 && t->warnings++ < WARNINGS_MOST)
        log_warn("worker",
                 "the %s is not a number iteration=%lld train.on_nan=%s", name,
                 (long long)t->at.iteration + 1, *ret_skip ? "skip" : "warn");
    return *ret_skip ? restore_state(t, err) : 0;
}

static bool is_scaled(const struct trainer *t)
{
    return t->mixed.dev != NULL && t->dt == DT_F16;
}

void trainer_report_value(struct trainer *t, const char *name,
                          int64_t iteration, double value)
{
    struct metric_row row = {
        .kind = METRIC_VALUE,
        .value = {.rank = 0, .iteration = iteration, .value = value}};
    (void)snprintf(row.value.name, sizeof(row.value.name), "%s", name);
    reporter_row(t->env->reporter, &row);
}

/* Reports the scale as a value of the iteration, and prints when it falls. */
static void say_scale(struct trainer *t, bool is_overflow)
{
    if (t->env->comm->rank != 0)
        return;
    trainer_report_value(t, "loss_scale", t->at.iteration + 1,
                         t->at.loss_scale.scale);
    if (is_overflow)
        trainer_say(
            t,
            "iteration %lld skipped, its gradient is not a number: loss "
            "scale now %g",
            (long long)t->at.iteration + 1, t->at.loss_scale.scale);
}

/* Changes the scale by the summed gradient, which is the same on every rank.
 * The caller handles a loss that is no number. */
static int follow_scale(struct trainer *t, bool is_finite, struct error *err)
{
    double was = t->at.loss_scale.scale;
    bool can = loss_scale_next(&t->at.loss_scale, is_finite);
    if (t->at.loss_scale.scale != was || t->at.iteration == 0)
        say_scale(t, !is_finite);
    if (!can)
        return error_set(err, ERR_STATE,
                         "the gradient is not a number with any loss scale: "
                         "lower train.optimizer.lr or use train.precision: "
                         "bf16");
    return 0;
}

/* inout norm  of this rank's share; of the whole */
static int norm_of_shares(struct trainer *t, double *norm, struct error *err)
{
    double square = *norm * *norm;
    if (comm_all_reduce_now(t->env->comm, &square, 1, COMM_F64, COMM_SUM,
                            TRAIN_DEADLINE_S, err) < 0)
        return -1;
    *norm = sqrt(square);
    return 0;
}

/* The gradient's norm, if the job uses it: 0 otherwise. */
static int find_norm(struct trainer *t, double *ret, struct error *err)
{
    const struct job_spec *s = t->spec;
    bool mixed = t->mixed.dev != NULL;
    *ret = 0;
    if (model_planned(t->model)->parts > 0) /* it was never there as a whole */
        return 0;
    if (mixed && !t->has_updated && mixed_take_grads(&t->mixed, err) < 0)
        return -1;
    if (s->train.clip_grad_norm <= 0 && s->train.on_nan == ON_NAN_FAIL &&
        !is_scaled(t) && !t->model->ops->is_language)
        return 0;
    if (optimizer_grad_norm(&t->optimizer,
                            mixed ? t->mixed.grads : model_grads(t->model), ret,
                            err) < 0)
        return -1;
    if (t->exchange != NULL)
        return norm_of_shares(t, ret, err);
    /* dp: only rank 0 has the sum. */
    return trainer_is_dp(t)
               ? comm_broadcast_now(t->env->comm, ret, sizeof(*ret), 0,
                                    TRAIN_DEADLINE_S, err)
               : 0;
}

/* Changes the weights once the ranks have agreed on the loss. */
static int finish(struct trainer *t, struct metric_iteration *m,
                  const struct agreed *a, struct error *err)
{
    const struct job_spec *s = t->spec;
    /* 1, but for what could not be read. */
    double scale = (trainer_by_batch(t) ? 1 : t->asked / a->weight) /
                   t->at.loss_scale.scale;
    double norm = 0, start_s = now_s(t);
    bool skip = false, overflow = false;
    if (find_norm(t, &norm, err) < 0)
        return -1;
    if (is_scaled(t) && isfinite(a->loss)) {
        overflow = !isfinite(norm);
        norm = overflow ? 0 : norm;
        if (follow_scale(t, !overflow, err) < 0)
            return -1;
    }
    norm *= scale;
    t->grad_norm = norm;
    scale *= optimizer_clip(norm, s->train.clip_grad_norm);
    m->t_optimizer = now_s(t) - start_s;
    if (guard(t, a, norm, &skip, err) < 0)
        return -1;
    /* The time went by whatever came of them. */
    t->at.samples += (int64_t)a->samples / trainer_copies(t);
    t->at.tokens += (int64_t)a->tokens / trainer_copies(t);
    if (skip)
        return 0;
    if (isfinite(a->loss)) {
        t->at.loss_sum += a->loss_sum / trainer_copies(t);
        t->at.counted += (int64_t)a->weight / trainer_copies(t);
    }
    return overflow ? 0 : update(t, m, scale, err);
}

/* Metrics of a language model beside its loss. */
static void report_text(struct trainer *t, const struct metric_iteration *m,
                        const struct agreed *a)
{
    if (!t->model->ops->is_language || t->env->comm->rank != 0)
        return;
    if (model_planned(t->model)->parts == 0)
        trainer_report_value(t, "grad_norm", m->iteration, t->grad_norm);
    trainer_report_value(t, "label_tokens", m->iteration, a->weight);
}

static void report(struct trainer *t, const struct metric_iteration *m,
                   const struct agreed *a)
{
    struct metric_row row = {.kind = METRIC_ITERATION, .iteration = *m};
    reporter_row(t->env->reporter, &row);
    for (int32_t i = 0; t->env->comm->rank == 0 && i < n_values(t); i++)
        trainer_report_value(t, t->model->ops->values[i], m->iteration,
                             a->values[i]);
    report_text(t, m, a);
    t->progress =
        (struct report_progress){.iteration = t->at.iteration,
                                 .iterations_total = t->total,
                                 .epoch = t->at.epoch,
                                 .epochs_total = t->spec->train.epochs,
                                 .loss = m->loss,
                                 .t_iter = m->t_iter,
                                 .eval_loss = t->eval_loss,
                                 .eval_accuracy = t->eval_accuracy};
    reporter_progress(t->env->reporter, &t->progress);
}

/* An update moves weights and state, gradients, and what it makes of the
 * weights: those of 16 bits, and their mean. */
static double update_bytes(const struct trainer *t)
{
    const struct optimizer *o = &t->optimizer;
    const double n = (double)o->n, own = n * (double)dtype_bytes(t->dt);
    return optimizer_moves(t->spec, o->dt, o->n) + own +
           (t->mixed.dev != NULL ? own : 0) +
           (t->ema.dev != NULL ? 2 * n * (double)dtype_acc_bytes(t->dt) : 0);
}

static void report_sol(struct trainer *t, const struct metric_iteration *m)
{
    const double share = sol_end(&t->sol, update_bytes(t), m->t_iter);
    if (isfinite(share) && t->env->comm->rank == 0)
        trainer_report_value(t, "sol", m->iteration, share);
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
    trainer_profile_begin(t);
    range_begin("iteration");
    if (trainer_pass(t, &m, &loss_sum, err) < 0 ||
        agree(t, &m, loss_sum, ret, err) < 0)
        return error_wrap(err, "iteration %lld", (long long)m.iteration);
    range_begin("optimizer");
    int rc = finish(t, &m, ret, err);
    range_end();
    if (!t->dev->host_memory)
        m.gpu_mem_bytes = t->bytes;
    m.loss = ret->loss;
    m.t_iter = now_s(t) - start_s;
    range_end();
    trainer_profile_end(t, m.t_iter, ret);
    report_sol(t, &m);
    t->at.iteration++;
    t->at.done++;
    model_reached(t->model, t->at.iteration);
    t->at.batch++;
    t->at.epoch_s += m.t_iter;
    report(t, &m, ret);
    if (rc < 0) /* the row is reported nevertheless */
        return error_wrap(err, "iteration %lld", (long long)m.iteration);
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
    int64_t counts[3]; /* hits, weight, left out since the last time */
};

static int evaluate_batch(struct trainer *t, int32_t i, struct sums *s,
                          struct error *err)
{
    struct batch b;
    struct model_result r;
    if (trainer_share_take(t, BATCH_EVAL, i, &b, err) < 0 ||
        trainer_run_eval(t, &b, err) < 0 ||
        t->source->ops->ahead(t->source, BATCH_EVAL, err) < 0 ||
        model_result(t->model, &b, &r, err) < 0)
        return -1;
    s->loss += r.loss_sum;
    s->counts[0] += r.hits;
    s->counts[1] += (int64_t)b.weight;
    reporter_alive(t->env->reporter);
    return 0;
}

static int evaluate(struct trainer *t, struct evaluation *ret,
                    struct agreed *ret_agreed, struct error *err)
{
    struct comm *c = t->env->comm;
    struct sums s = {.loss = 0};
    struct agreed a = {.stop = false};
    if (trainer_share_state(t, err) < 0)
        return error_wrap(err, "evaluation");
    for (int32_t i = 0; i < t->eval_batches && !a.stop && !a.fenced; i++)
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
                         "evaluation: none of the %s can be read",
                         t->source->ops->noun);
    *ret = (struct evaluation){.loss = s.loss / (double)s.counts[1],
                               .accuracy =
                                   (double)s.counts[0] / (double)s.counts[1],
                               .bad = s.counts[2]};
    return 0;
}

int trainer_evaluate(struct trainer *t, struct evaluation *ret,
                     struct agreed *ret_agreed, struct error *err)
{
    if (ema_show(&t->ema, true, err) < 0)
        return error_wrap(err, "evaluation");
    range_begin("evaluation");
    int rc = evaluate(t, ret, ret_agreed, err);
    range_end();
    if (ema_show(&t->ema, false, rc < 0 ? NULL : err) < 0)
        return rc < 0 ? -1 : error_wrap(err, "evaluation");
    return rc;
}
