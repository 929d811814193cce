/* trainer_position.c - find the start of a run: the newest checkpoint of its
 * own job, that of another, or iteration 1; and its end. */
#include "worker/train/trainer_position.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/log.h"
#include "worker/train/resume_from.h"
#include "worker/train/trainer_internal.h"

/* A line of the log for each; a later checkpoint may take its place. */
static void say_damaged(const struct buf *skipped)
{
    for (const char *line = buf_str(skipped); *line != '\0';) {
        int n = (int)strcspn(line, "\n");
        log_warn("worker", "checkpoint is damaged, not used why=\"%.*s\"", n,
                 line);
        line += n + 1;
    }
}

/* *ret_is_found: there is one, and the model has it. */
static int load_newest(const struct checkpoint_parts *parts, const char *dir,
                       struct checkpoint_state *ret, bool *ret_is_found,
                       struct error *err)
{
    struct error why = ERROR_INIT;
    struct buf skipped = BUF_INIT;
    int rc = checkpoint_load(dir, parts, ret, &skipped, &why);
    say_damaged(&skipped);
    *ret_is_found = rc == 0;
    if (rc < 0 && why.code == ERR_NOTFOUND) {
        if (skipped.len > 0)
            log_warn("worker",
                     "no checkpoint can be used, training begins at "
                     "iteration 1 dir=\"%s\"",
                     dir);
        rc = 0;
    } else if (rc < 0 && err != NULL) {
        *err = why;
    }
    buf_clear(&skipped);
    return rc;
}

/* Batch norm takes its statistics over the batch of one pass. So the losses are
 * the same on other ranks where gradient accumulation makes up for them: the
 * same batches, dealt to other ranks. */
static void say_change(const struct trainer *t,
                       const struct checkpoint_state *was)
{
    const struct checkpoint_state *is = &t->at;
    if (was->global_batch != is->global_batch)
        log_warn("worker",
                 "the checkpoint has another global batch: training "
                 "continues, but losses differ was=%" PRId64 " is=%" PRId64,
                 was->global_batch, is->global_batch);
    else if (was->batch_size != 0 && was->batch_size != is->batch_size)
        log_warn("worker",
                 "the checkpoint has another train.batch_size: training "
                 "continues, but losses differ was=%d is=%d",
                 was->batch_size, is->batch_size);
    else if (was->ranks != is->ranks && was->batch_size == 0)
        log_warn("worker",
                 "the checkpoint has another number of ranks: training "
                 "continues, but losses differ was=%d is=%d",
                 was->ranks, is->ranks);
    else if (was->ranks != is->ranks)
        trainer_say(t,
                    "the checkpoint is of %d rank%s, this run has %d: the "
                    "batches stay the same, so losses differ by rounding only",
                    was->ranks, was->ranks == 1 ? "" : "s", is->ranks);
}

static void say_lines(const struct trainer *t, const struct buf *lines)
{
    for (const char *at = buf_str(lines); *at != '\0';) {
        int n = (int)strcspn(at, "\n");
        trainer_say(t, "%.*s", n, at);
        at += n + 1;
    }
}

/* Refuses a checkpoint with nothing left to train. */
static int check_rest(const struct trainer *t, const char *dir,
                      const struct checkpoint_state *s, struct error *err)
{
    const int32_t limit = t->spec->train.max_iterations;
    if (s->epoch > t->spec->train.epochs)
        return error_set(err, ERR_INVAL,
                         "'%.100s' has %d epochs: set train.epochs to more",
                         dir, s->epoch - 1);
    if (limit > 0 && s->done >= limit)
        return error_set(err, ERR_INVAL,
                         "'%.100s' has %" PRId64
                         " iterations: set train.max_iterations to more",
                         dir, s->done);
    return 0;
}

static int refuse_damaged(const char *dir, struct error *err)
{
    char best[1200];
    const int n = snprintf(best, sizeof(best), "%s/best", dir);
    const bool is_left =
        n > 0 && n < (int)sizeof(best) && checkpoint_is_one(best);
    return error_set(err, ERR_NOTFOUND, "no whole checkpoint in '%.150s'%s",
                     dir,
                     is_left ? "; name best/ in it to go on from that" : "");
}

/* Loads from another job. Its early stopping is not this job's, nor is the best
 * of its evaluations, whose checkpoint lies in its own directory. */
static int load_other(struct trainer *t, struct checkpoint_state *ret,
                      struct error *err)
{
    struct checkpoint_parts parts = trainer_parts(t);
    struct buf dir = BUF_INIT, notes = BUF_INIT;
    const bool weights = t->spec->train.weights_only;
    bool is_one = false, is_found = true;
    parts.weights_only = weights;
    int rc = resume_from_find(t->spec, &dir, &is_one, &notes, err);
    if (rc == 0) {
        say_lines(t, &notes);
        rc = is_one ? checkpoint_load_one(buf_str(&dir), &parts, ret, NULL, err)
                    : load_newest(&parts, buf_str(&dir), ret, &is_found, err);
    }
    if (rc == 0 && !is_found)
        rc = refuse_damaged(buf_str(&dir), err);
    if (rc == 0 && !t->spec->train.eval_only && !weights)
        rc = check_rest(t, buf_str(&dir), ret, err);
    if (rc == 0) {
        if (weights)
            trainer_say(t,
                        "took the weights of '%s', of its iteration %" PRId64,
                        buf_str(&dir), ret->iteration);
        else
            trainer_say(t, "loaded the checkpoint of '%s'", buf_str(&dir));
        ret->watched = NAN;
        ret->waited = 0;
        ret->best = NAN;
    }
    buf_clear(&dir);
    buf_clear(&notes);
    return rc < 0 ? error_wrap(err, "train.resume_from") : 0;
}

/* Rank 0 looks for a checkpoint; one of another number of ranks resumes at the
 * same share of the epoch. */
static int load_position(struct trainer *t, struct error *err)
{
    const struct checkpoint_parts parts = trainer_parts(t);
    struct checkpoint_state found = {0};
    bool is_found = false;
    if (t->spec->retry.resume && !t->spec->train.eval_only &&
        load_newest(&parts, t->env->ckpt_dir, &found, &is_found, err) < 0)
        return -1;
    if (!is_found && t->spec->train.resume_from == NULL)
        return 0;
    if (!is_found && load_other(t, &found, err) < 0)
        return -1;
    if (t->spec->train.eval_only) {
        t->at = found;
        return 0;
    }
    if (!is_found && t->spec->train.weights_only)
        return 0; /* t->at is the beginning */
    say_change(t, &found);
    if (found.global_batch != t->at.global_batch) {
        int64_t seen = found.batch * found.global_batch;
        int64_t batch = seen / t->at.global_batch;
        /* An epoch's last batch may have been smaller than the others. */
        found.batch = batch < t->batches ? (int32_t)batch : t->batches;
        const bool is_evaluated = found.evaluated == found.iteration;
        found.iteration = (int64_t)(found.epoch - 1) * t->batches + found.batch;
        found.evaluated = is_evaluated ? found.iteration : 0;
    }
    found.ranks = t->at.ranks;
    found.batch_size = t->at.batch_size;
    found.global_batch = t->at.global_batch;
    t->at = found;
    t->saved_at = found.iteration;
    trainer_position_limit(t);
    trainer_say(t, "resumed at iteration %" PRId64 " of %" PRId64 ", epoch %d",
                t->at.iteration, t->total, t->at.epoch);
    return 0;
}

int trainer_find_newest(struct trainer *t, struct error *err)
{
    if (t->env->comm->rank == 0 && load_position(t, err) < 0)
        return -1;
    if (t->exchange == NULL)
        return 0;
    return t->env->comm->rank == 0 ? shard_end(t->exchange, err)
                                   : shard_serve(t->exchange, err);
}

/* ---- the end ---------------------------------------------------------------
 */

void trainer_position_limit(struct trainer *t)
{
    const int64_t all = (int64_t)t->batches * t->spec->train.epochs;
    const int64_t limit = t->spec->train.max_iterations;
    const int64_t left = limit > t->at.done ? limit - t->at.done : 0;
    t->is_cut = limit > 0 && t->at.iteration + left < all;
    t->total = t->is_cut ? t->at.iteration + left : all;
}

static bool has_waited(const struct trainer *t)
{
    const struct spec_early_stopping *e = &t->spec->train.early_stopping;
    return e->metric != WATCH_NONE && t->at.waited >= e->patience;
}

void trainer_position_watch(struct trainer *t, const double *train_loss,
                            const struct evaluation *v)
{
    const struct spec_early_stopping *e = &t->spec->train.early_stopping;
    const bool up = e->metric == WATCH_EVAL_ACCURACY;
    const double was = t->at.watched;
    double x = up ? v->accuracy : v->loss;
    if (e->metric == WATCH_NONE ||
        (e->metric == WATCH_TRAIN_LOSS && train_loss == NULL))
        return;
    if (e->metric == WATCH_TRAIN_LOSS)
        x = *train_loss;
    if (isfinite(x) && (!isfinite(was) || (up ? x > was + e->min_delta
                                              : x < was - e->min_delta))) {
        t->at.watched = x;
        t->at.waited = 0;
    } else {
        t->at.waited++;
    }
}

bool trainer_position_is_over(const struct trainer *t)
{
    return t->at.epoch > t->spec->train.epochs || t->has_ended ||
           has_waited(t) || (t->at.iteration >= t->total && t->at.batch == 0);
}

void trainer_position_reason(const struct trainer *t, char *ret, size_t cap)
{
    static const char *const names[] = {[WATCH_TRAIN_LOSS] = "train_loss",
                                        [WATCH_EVAL_LOSS] = "eval_loss",
                                        [WATCH_EVAL_ACCURACY] =
                                            "eval_accuracy"};
    const struct spec_early_stopping *e = &t->spec->train.early_stopping;
    char best[40] = "a number";
    ret[0] = '\0';
    if (has_waited(t) && t->at.iteration < t->total) {
        if (isfinite(t->at.watched))
            (void)snprintf(best, sizeof(best), "better than %.6g",
                           t->at.watched);
        (void)snprintf(ret, cap,
                       "early stopping at iteration %" PRId64 " of %" PRId64
                       ": no %s %s in %d %s%s",
                       t->at.iteration, t->total, names[e->metric], best,
                       t->at.waited,
                       e->metric == WATCH_TRAIN_LOSS ? "epoch" : "evaluation",
                       t->at.waited == 1 ? "" : "s");
    } else if (t->is_cut) {
        (void)snprintf(ret, cap, "train.max_iterations: %d, in epoch %d of %d",
                       t->spec->train.max_iterations,
                       t->at.epoch - (t->at.batch == 0 ? 1 : 0),
                       t->spec->train.epochs);
    }
}
