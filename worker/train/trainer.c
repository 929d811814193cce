/* trainer.c - epochs, and the ways in which they end. */
#include "worker/train/trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "jobs/base/log.h"
#include "worker/process/host_memory.h"
#include "worker/train/trainer_internal.h"
#include "worker/train/trainer_profile.h"
#include "worker/train/trainer_results.h"

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
    char text[LOSS_CAP], speed[SPEED_CAP];
    trainer_say(t, "epoch %d/%d: iteration %d/%d, loss %s, %s", t->at.epoch,
                t->spec->train.epochs, t->at.batch, t->batches,
                loss_text(loss, text),
                speed_text((double)t->at.samples, (double)t->at.tokens,
                           t->at.epoch_s, speed));
}

/* As the newest checkpoint, or the best. Rank 0 writes; the others have a part
 * in it where the parameters are shared out. */
static int write_checkpoint(struct trainer *t, bool is_best, struct error *err)
{
    if (t->env->comm->rank != 0)
        return t->exchange != NULL ? shard_serve(t->exchange, err) : 0;
    struct checkpoint_parts parts = trainer_parts(t);
    reporter_saving(t->env->reporter, true);
    int rc = is_best
                 ? checkpoint_save_best(t->env->ckpt_dir, &t->at, &parts, err)
                 : checkpoint_save(t->env->ckpt_dir, &t->at, &parts,
                                   t->spec->checkpoint.keep_last, err);
    if (t->exchange != NULL && shard_end(t->exchange, rc < 0 ? NULL : err) < 0)
        rc = -1;
    reporter_saving(t->env->reporter, false);
    return rc;
}

static int save(struct trainer *t, struct error *err)
{
    t->saved_s = t->env->clock->now_s(t->env->clock);
    return write_checkpoint(t, false, err);
}

/* A checkpoint on the way; a run with a full disk still trains. */
static void save_now(struct trainer *t)
{
    struct error why = ERROR_INIT;
    if (save(t, &why) < 0)
        log_warn("worker", "no checkpoint, training goes on why=\"%s\"",
                 why.msg);
}

/* The position is already that behind the evaluation. */
static void save_best(struct trainer *t, const struct evaluation *v)
{
    const struct job_spec *s = t->spec;
    bool is_loss = s->checkpoint.metric == METRIC_EVAL_LOSS;
    bool up = s->checkpoint.mode == MODE_AUTO ? !is_loss
                                              : s->checkpoint.mode == MODE_MAX;
    double x = is_loss ? v->loss : v->accuracy, was = t->at.best;
    struct error why = ERROR_INIT;
    if (!s->checkpoint.keep_best || !isfinite(x) ||
        (isfinite(was) && (up ? x <= was : x >= was)))
        return;
    t->at.best = x;
    if (write_checkpoint(t, true, &why) < 0)
        log_warn("worker", "the best is not kept, training goes on why=\"%s\"",
                 why.msg);
}

/* Without data for it there is nothing to say. */
static void say_epoch(const struct trainer *t, const struct metric_epoch *e)
{
    char train[LOSS_CAP], eval[LOSS_CAP], evaluated[60] = "", hits[40] = "";
    char speed[SPEED_CAP];
    if (t->eval_batches > 0)
        (void)snprintf(evaluated, sizeof(evaluated), ", evaluation loss %s",
                       loss_text(e->eval_loss, eval));
    if (t->spec->kind != SPEC_LLM)
        (void)snprintf(hits, sizeof(hits), ", accuracy %.4f", e->eval_accuracy);
    trainer_say(t, "epoch %d/%d: %.1f s, training loss %s%s%s, %s", e->epoch,
                t->spec->train.epochs, e->seconds,
                loss_text(e->train_loss, train), evaluated, hits,
                speed_text(e->samples_per_s,
                           isnan(e->tokens_per_s) ? 0 : e->tokens_per_s, 1,
                           speed));
}

/* With its loss as a value of the iteration, for a language model. */
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
    if (t->spec->kind == SPEC_LLM && t->env->comm->rank == 0 &&
        !ret_agreed->stop && !ret_agreed->fenced)
        trainer_report_value(t, "val_loss", t->at.iteration, ret->loss);
    return 0;
}

/* train.run_val_every_n_steps; the end of an epoch has its own. */
static int evaluate_between(struct trainer *t, struct agreed *ret,
                            struct error *err)
{
    const int32_t every = t->spec->train.run_val_every;
    struct evaluation v;
    char text[LOSS_CAP];
    if (every <= 0 || t->eval_batches == 0 || t->at.iteration % every != 0 ||
        t->at.batch == t->batches)
        return 0;
    if (evaluate(t, &v, ret, err) < 0)
        return -1;
    if (!ret->stop && !ret->fenced)
        trainer_say(t, "epoch %d/%d: iteration %d/%d, evaluation loss %s",
                    t->at.epoch, t->spec->train.epochs, t->at.batch, t->batches,
                    loss_text(v.loss, text));
    return 0;
}

/* With stop or fenced in *ret, the epoch has not ended: a run that is
 * resumed here begins with its evaluation. */
static int end_epoch(struct trainer *t, struct agreed *ret, struct error *err)
{
    struct metric_row row = {.kind = METRIC_EPOCH};
    struct metric_epoch *e = &row.epoch;
    *e = (struct metric_epoch){
        .epoch = t->at.epoch,
        .seconds = t->at.epoch_s,
        .train_loss = t->at.counted > 0 ? t->at.loss_sum / (double)t->at.counted
                                        : (double)NAN,
        .samples_per_s = (double)t->at.samples / t->at.epoch_s};
    struct evaluation v;
    if (trainer_profile_epoch(t, err) < 0)
        return -1;
    if (evaluate(t, &v, ret, err) < 0)
        return -1;
    if (ret->stop || ret->fenced)
        return 0;
    e->eval_loss = v.loss;
    /* A language model has no accuracy. */
    e->eval_accuracy = t->spec->kind == SPEC_LLM ? (double)NAN : v.accuracy;
    e->tokens_per_s =
        t->at.tokens > 0 ? (double)t->at.tokens / t->at.epoch_s : (double)NAN;
    t->eval_accuracy = e->eval_accuracy;
    if (t->env->comm->rank == 0)
        reporter_row(t->env->reporter, &row);
    t->progress.eval_accuracy = e->eval_accuracy;
    reporter_progress(t->env->reporter, &t->progress);
    say_epoch(t, e);
    if (v.bad != t->bad_said)
        trainer_say(
            t,
            "epoch %d/%d: left out, for they could not be read: %" PRId64 " %s",
            e->epoch, t->spec->train.epochs, v.bad, t->source->ops->noun);
    t->bad_said = v.bad;
    t->at.epoch++;
    t->at.batch = 0;
    t->at.epoch_s = t->at.loss_sum = 0;
    t->at.samples = t->at.counted = t->at.tokens = 0;
    save_best(t, &v);
    if (t->at.epoch > t->spec->train.epochs)
        return save(t, err);
    if (t->every.unit == EVERY_EPOCHS &&
        (t->at.epoch - 1) % (int64_t)t->every.n == 0)
        save_now(t);
    return 0;
}

static int stop_here(struct trainer *t, struct train_result *ret,
                     struct error *err)
{
    const char *with = "no checkpoint";
    if (t->at.batch > 0 && trainer_profile_epoch(t, err) < 0)
        return -1;
    if (t->spec->checkpoint.on_signal) {
        if (save(t, err) < 0)
            return -1;
        with = "checkpoint";
    }
    ret->end = TRAIN_STOPPED;
    (void)snprintf(ret->why, sizeof(ret->why),
                   "stopped by signal, %s at iteration %" PRId64, with,
                   t->at.iteration);
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

/* To the end of the epoch, or until the ranks agree to stop. */
static int train_epoch(struct trainer *t, struct agreed *ret, struct error *err)
{
    if (trainer_share_epoch(t, err) < 0)
        return -1;
    while (t->at.batch < t->batches) {
        if (trainer_step(t, ret, err) < 0)
            return -1;
        if (ret->fenced || ret->stop)
            return 0;
        if (ret->save) {
            bool asked = *t->env->save != 0;
            *t->env->save = 0;
            save_now(t);
            if (asked || t->every.unit == EVERY_SECONDS)
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
    return end_epoch(t, ret, err);
}

/* What a person should ask for: the plan, and all that it does not cover. */
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
    for (bool is_first = true; t->at.epoch <= t->spec->train.epochs;
         is_first = false) {
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

int trainer_run(const struct train_env *env, struct train_result *ret,
                struct error *err)
{
    struct trainer t;
    struct train_result r = {.end = TRAIN_DONE};
    int rc = trainer_open(&t, env, err);
    t.saved_s = env->clock->now_s(env->clock);
    if (rc == 0 && t.at.iteration == 0)
        trainer_sample(&t);
    sample_times_begin(&t.samples, env->clock->now_s(env->clock));
    rc = rc < 0 ? rc : train(&t, &r, err);
    if (rc == 0 && r.end == TRAIN_DONE) {
        trainer_sample(&t);
        rc = trainer_save_result(&t, err);
    }
    if (rc == 0) {
        r.iteration = t.at.iteration;
        r.eval_accuracy = t.eval_accuracy;
        const int64_t bad = t.bad_said + t.data.left_out;
        if (r.end == TRAIN_DONE && bad > 0)
            (void)snprintf(r.why, sizeof(r.why),
                           "left out of the last epoch, for they could not be "
                           "read: %" PRId64 " %s",
                           bad, t.source->ops->noun);
        *ret = r;
    }
    trainer_close(&t);
    return rc;
}
