/* trainer.c - run the epochs, and end them. */
#include "worker/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "worker/process/host_memory.h"
#include "worker/train/trainer_internal.h"
#include "worker/train/trainer_position.h"
#include "worker/train/trainer_profile.h"
#include "worker/train/trainer_results.h"
#include "worker/train/trainer_save.h"

/* About ten lines of progress per epoch, but not more than one in two
 * seconds: a log is for people. */
static const double say_each_s = 2;

enum { LOSS_CAP = 32 };

/* printf() knows a NAN as "-nan", too. */
static const char *loss_text(double loss, char ret[LOSS_CAP])
{
    (void)snprintf(ret, LOSS_CAP, "%.4f", loss);
    return isnan(loss) ? "not a number" : ret;
}

/* "512 samples/s", or of a language model "8190 tokens/s". */
enum { SPEED_CAP = 40 };
static const char *speed_text(double samples, double tokens, double seconds,
                              char ret[SPEED_CAP])
{
    const bool reads = tokens > 0;
    (void)snprintf(ret, SPEED_CAP, "%.0f %s/s",
                   (reads ? tokens : samples) / seconds,
                   reads ? "tokens" : "samples");
    return ret;
}

static void say_progress(struct trainer *t, double loss)
{
    int32_t tenth = (t->batches + 9) / 10;
    double now_s = t->env->clock->now_s(t->env->clock);
    if (t->at.batch % tenth != 0 || now_s - t->said_s < say_each_s)
        return;
    t->said_s = now_s;
    char text[LOSS_CAP], speed[SPEED_CAP], sol[SOL_TEXT_CAP];
    trainer_say(t, "epoch %d/%d: iteration %d/%d, loss %s, %s%s", t->at.epoch,
                t->spec->train.epochs, t->at.batch, t->batches,
                loss_text(loss, text),
                speed_text((double)t->at.samples, (double)t->at.tokens,
                           t->at.epoch_s, speed),
                sol_text(&t->sol, sol));
}

/* Without data for an evaluation the line leaves it out. */
static void say_epoch(const struct trainer *t, const struct metric_epoch *e)
{
    char train[LOSS_CAP], eval[LOSS_CAP], evaluated[60] = "", hits[40] = "";
    char speed[SPEED_CAP], sol[SOL_TEXT_CAP];
    if (t->eval_batches > 0)
        (void)snprintf(evaluated, sizeof(evaluated), ", evaluation loss %s",
                       loss_text(e->eval_loss, eval));
    if (!t->model->ops->is_language)
        (void)snprintf(hits, sizeof(hits), ", accuracy %.4f", e->eval_accuracy);
    trainer_say(t, "epoch %d/%d: %.1f s, training loss %s%s%s, %s%s", e->epoch,
                t->spec->train.epochs, e->seconds,
                loss_text(e->train_loss, train), evaluated, hits,
                speed_text(e->samples_per_s,
                           isnan(e->tokens_per_s) ? 0 : e->tokens_per_s, 1,
                           speed),
                sol_text(&t->sol, sol));
}

/* Evaluates; a language model reports the loss as a value of the iteration,
 * too. */
static int evaluate(struct trainer *t, struct evaluation *ret,
                    struct agreed *ret_agreed, struct error *err)
{
    if (t->eval_batches == 0) {
        *ret = (struct evaluation){.loss = NAN, .accuracy = NAN, .bad = t->bad};
        *ret_agreed = (struct agreed){.stop = false};
        t->bad = 0;
        return 0;
    }
    if (trainer_evaluate(t, ret, ret_agreed, err) < 0)
        return -1;
    if (t->model->ops->is_language && t->env->comm->rank == 0 &&
        !ret_agreed->stop && !ret_agreed->fenced)
        trainer_report_value(t, "val_loss", t->at.iteration, ret->loss);
    return 0;
}

/* The row of an epoch, and its line. */
static void report_epoch(struct trainer *t, const struct evaluation *v)
{
    struct metric_row row = {.kind = METRIC_EPOCH};
    struct metric_epoch *e = &row.epoch;
    *e = (struct metric_epoch){
        .epoch = t->at.epoch,
        .seconds = t->at.epoch_s,
        .train_loss = t->at.counted > 0 ? t->at.loss_sum / (double)t->at.counted
                                        : (double)NAN,
        .samples_per_s = (double)t->at.samples / t->at.epoch_s};
    e->eval_loss = v->loss;
    e->eval_accuracy = t->model->ops->is_language ? (double)NAN : v->accuracy;
    e->tokens_per_s =
        t->at.tokens > 0 ? (double)t->at.tokens / t->at.epoch_s : (double)NAN;
    t->eval_loss = e->eval_loss;
    t->eval_accuracy = e->eval_accuracy;
    if (t->env->comm->rank == 0)
        reporter_row(t->env->reporter, &row);
    t->progress.eval_loss = e->eval_loss;
    t->progress.eval_accuracy = e->eval_accuracy;
    reporter_progress(t->env->reporter, &t->progress);
    say_epoch(t, e);
    if (v->bad != t->bad_said)
        trainer_say(
            t,
            "epoch %d/%d: left out, for they could not be read: %" PRId64 " %s",
            e->epoch, t->spec->train.epochs, v->bad, t->source->ops->noun);
    t->bad_said = v->bad;
}

static void begin_epoch(struct trainer *t)
{
    t->at.epoch++;
    t->at.batch = 0;
    t->at.epoch_s = t->at.loss_sum = 0;
    sol_next_epoch(&t->sol);
    t->at.samples = t->at.counted = t->at.tokens = 0;
}

/* If *ret says stop or fenced, the epoch has not ended: a run that is resumed
 * here begins with its evaluation. The position stays inside an epoch that is
 * cut short, so that a job with more iterations goes on there.
 * in  known  evaluated already; NULL: not yet */
static int end_epoch(struct trainer *t, const struct evaluation *known,
                     struct agreed *ret, struct error *err)
{
    struct evaluation v;
    const double train_loss = t->at.counted > 0
                                  ? t->at.loss_sum / (double)t->at.counted
                                  : (double)NAN;
    if (trainer_profile_epoch(t, err) < 0)
        return -1;
    if (known == NULL && evaluate(t, &v, ret, err) < 0)
        return -1;
    if (ret->stop || ret->fenced)
        return 0;
    if (known != NULL)
        v = *known;
    report_epoch(t, &v);
    if (t->at.batch == t->batches) {
        trainer_position_watch(t, &train_loss, &v);
        begin_epoch(t);
    } else {
        t->has_ended = true;
    }
    if (trainer_save_best(t, &v, err) < 0)
        return -1;
    /* The last one waits for the result, which comes first. */
    t->needs_last = trainer_position_is_over(t);
    if (!t->needs_last && t->every.unit == EVERY_EPOCHS &&
        (t->at.epoch - 1) % (int64_t)t->every.n == 0)
        return trainer_save_now(t, err);
    return 0;
}

/* train.run_val_every_n_steps; the end of an epoch has its own. A run that is
 * resumed after such an iteration begins with its evaluation, unless that is
 * in the checkpoint. */
static int evaluate_between(struct trainer *t, struct agreed *ret,
                            struct error *err)
{
    const int32_t every = t->spec->train.run_val_every;
    struct evaluation v;
    char text[LOSS_CAP];
    if (every <= 0 || t->eval_batches == 0 || t->at.batch == 0 ||
        t->at.iteration % every != 0 || t->at.iteration == t->at.evaluated ||
        t->at.batch == t->batches || t->at.iteration >= t->total)
        return 0;
    if (evaluate(t, &v, ret, err) < 0)
        return -1;
    if (ret->stop || ret->fenced)
        return 0;
    t->at.evaluated = t->at.iteration;
    trainer_say(t, "epoch %d/%d: iteration %d/%d, evaluation loss %s",
                t->at.epoch, t->spec->train.epochs, t->at.batch, t->batches,
                loss_text(v.loss, text));
    trainer_position_watch(t, NULL, &v);
    return trainer_position_is_over(t) ? end_epoch(t, &v, ret, err)
                                       : trainer_save_best(t, &v, err);
}

static int stop_here(struct trainer *t, struct train_result *ret,
                     struct error *err)
{
    char with[sizeof(ret->why) - 20];
    if ((t->at.batch > 0 && trainer_profile_epoch(t, err) < 0) ||
        trainer_save_stop(t, with, sizeof(with), err) < 0)
        return -1;
    ret->end = TRAIN_STOPPED;
    (void)snprintf(ret->why, sizeof(ret->why), "stopped by signal, %s", with);
    trainer_say(t, "%s", ret->why);
    return 0;
}

static void stop_fenced(const struct trainer *t, struct train_result *ret)
{
    struct error why = ERROR_INIT;
    (void)reporter_is_fenced(t->env->reporter, &why);
    ret->end = TRAIN_FENCED;
    (void)snprintf(ret->why, sizeof(ret->why),
                   "the daemon refused this attempt: %.150s",
                   why.code != ERR_NONE ? why.msg : "told to another rank");
}

/* Trains to the end of the epoch, or until the ranks agree to stop. */
static int train_epoch(struct trainer *t, struct agreed *ret, struct error *err)
{
    if (trainer_share_epoch(t, err) < 0 || evaluate_between(t, ret, err) < 0)
        return -1;
    if (ret->fenced || ret->stop)
        return 0;
    while (t->at.batch < t->batches && t->at.iteration < t->total) {
        if (trainer_position_is_over(t))
            return 0;
        if (trainer_step(t, ret, err) < 0)
            return -1;
        if (ret->fenced || ret->stop)
            return 0;
        if (ret->save) {
            bool asked = *t->env->save != 0;
            *t->env->save = 0;
            if (trainer_save_now(t, err) < 0)
                return -1;
            if (t->save_failed[0] == '\0' &&
                (asked || t->every.unit == EVERY_SECONDS))
                trainer_say(t, "checkpoint at iteration %" PRId64,
                            t->at.iteration);
        }
        say_progress(t, ret->loss);
        if (trainer_sample_between(t, err) < 0 ||
            evaluate_between(t, ret, err) < 0)
            return -1;
        if (ret->fenced || ret->stop)
            return 0;
    }
    return trainer_position_is_over(t) ? 0 : end_epoch(t, NULL, ret, err);
}

/* The memory to request for a job: the plan, and all that it does not cover. */
static void say_memory(const struct trainer *t)
{
    int64_t highest = memory_used("").highest;
    if (highest >= 0)
        trainer_say(t,
                    "highest host memory of rank 0 in the first epoch: %.1f "
                    "MiB",
                    (double)highest / (1 << 20));
}

static int train(struct trainer *t, struct train_result *ret, struct error *err)
{
    for (bool is_first = true; !trainer_position_is_over(t); is_first = false) {
        struct agreed a = {.stop = false};
        if (train_epoch(t, &a, err) < 0)
            return -1;
        if (a.fenced) {
            stop_fenced(t, ret);
            return 0;
        }
        if (a.stop)
            return stop_here(t, ret, err);
        if (is_first)
            say_memory(t);
    }
    return 0;
}

/* What does not fit whole is left out: the first are the ones that matter. */
static void join(char *io, size_t cap, const char *part)
{
    const size_t len = strlen(io), more = strlen(part);
    if (more > 0 && len + more + 3 <= cap)
        (void)snprintf(io + len, cap - len, "%s%s", len > 0 ? "; " : "", part);
}

/* train.eval_only: leaves a row, and changes no file. */
static int evaluate_only(struct trainer *t, struct train_result *ret,
                         struct error *err)
{
    const struct clock *clock = t->env->clock;
    const double start_s = clock->now_s(clock);
    struct agreed a = {.stop = false};
    struct evaluation v;
    char loss[LOSS_CAP];
    if (evaluate(t, &v, &a, err) < 0)
        return -1;
    if (a.fenced) {
        stop_fenced(t, ret);
        return 0;
    }
    if (a.stop) {
        ret->end = TRAIN_STOPPED;
        (void)snprintf(ret->why, sizeof(ret->why), "stopped by signal");
        return 0;
    }
    struct metric_row row = {.kind = METRIC_EPOCH};
    row.epoch = (struct metric_epoch){
        .epoch =
            t->at.batch == 0 && t->at.epoch > 1 ? t->at.epoch - 1 : t->at.epoch,
        .seconds = clock->now_s(clock) - start_s,
        .train_loss = NAN,
        .eval_loss = v.loss,
        .eval_accuracy = v.accuracy,
        .samples_per_s = NAN,
        .tokens_per_s = NAN};
    t->eval_loss = t->progress.eval_loss = v.loss;
    t->eval_accuracy = t->progress.eval_accuracy = v.accuracy;
    if (t->env->comm->rank == 0)
        reporter_row(t->env->reporter, &row);
    reporter_progress(t->env->reporter, &t->progress);
    (void)snprintf(ret->why, sizeof(ret->why),
                   "evaluated at iteration %" PRId64 ": loss %s, accuracy %.4f",
                   t->at.iteration, loss_text(v.loss, loss), v.accuracy);
    trainer_say(t, "%s", ret->why);
    return 0;
}

/* The result comes first, and the checkpoint even if there is none: a later
 * attempt then exports it, and trains nothing again. */
static int finish(struct trainer *t, struct train_result *r, struct error *err)
{
    struct error why = ERROR_INIT;
    char no_last[140] = "", no_best[140] = "", left_out[100] = "";
    char early[140];
    const int64_t bad = t->bad_said + t->data.left_out;
    trainer_sample(t);
    int rc = trainer_save_result(t, &why);
    if (t->needs_last && trainer_save_last(t, no_last, sizeof(no_last),
                                           rc < 0 ? NULL : &why) < 0)
        rc = -1;
    if (trainer_export_best(t, no_best, sizeof(no_best), rc < 0 ? NULL : &why) <
        0)
        rc = -1;
    if (rc < 0) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (bad > 0)
        (void)snprintf(left_out, sizeof(left_out),
                       "left out of the last epoch, for they could not be "
                       "read: %" PRId64 " %s",
                       bad, t->source->ops->noun);
    trainer_position_reason(t, early, sizeof(early));
    if (early[0] != '\0')
        trainer_say(t, "%s", early);
    join(r->why, sizeof(r->why), early);
    join(r->why, sizeof(r->why), no_last);
    join(r->why, sizeof(r->why), no_best);
    join(r->why, sizeof(r->why), left_out);
    return 0;
}

int trainer_run(const struct train_env *env, struct train_result *ret,
                struct error *err)
{
    struct trainer t;
    struct train_result r = {.end = TRAIN_DONE};
    int rc = trainer_open(&t, env, err);
    t.saved_s = env->clock->now_s(env->clock);
    const bool trains = !env->spec->train.eval_only;
    if (rc == 0 && t.at.iteration == 0 && trains)
        trainer_sample(&t);
    sample_times_begin(&t.samples, env->clock->now_s(env->clock));
    if (rc == 0)
        rc = trains ? train(&t, &r, err) : evaluate_only(&t, &r, err);
    if (rc == 0 && r.end == TRAIN_DONE && trains)
        rc = finish(&t, &r, err);
    if (rc == 0) {
        r.iteration = t.at.iteration;
        r.eval_accuracy = t.eval_accuracy;
        *ret = r;
    }
    trainer_close(&t);
    return rc;
}
