/* trainer_save.c - see trainer_save.h.
 *
 * A failure is reported when it is another one than the failure before: a disk
 * that stays full is one event, not one for each checkpoint. */
#include "worker/train/trainer_save.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/base/log.h"

/* Writes the newest checkpoint, or the best. */
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

/* "No space left on device", without the path before it. */
static const char *cause_of(const struct error *why)
{
    const char *at = strrchr(why->msg, ':');
    return at != NULL && at[1] == ' ' ? at + 2 : why->msg;
}

/* in  lost  of the iterations, "" for none that is known */
static void report_failure(struct trainer *t, const char *what,
                           const char *lost, const struct error *why)
{
    char text[400]; /* the reporter cuts it */
    log_warn("worker", "no %s iteration=%" PRId64 " why=\"%s\"", what,
             t->at.iteration, why->msg);
    (void)snprintf(t->save_failed, sizeof(t->save_failed), "%.79s",
                   cause_of(why));
    (void)snprintf(text, sizeof(text),
                   "no %s at iteration %" PRId64 "%s: %.80s, in %.200s", what,
                   t->at.iteration, lost, cause_of(why), t->env->ckpt_dir);
    reporter_save_failed(t->env->reporter, text);
}

/* 0 written, 1 failed, and the run goes on; -1 it does not. */
static int try_save(struct trainer *t, bool is_best, const char *what,
                    struct error *err)
{
    char was[sizeof(t->save_failed)];
    struct error why = ERROR_INIT;
    memcpy(was, t->save_failed, sizeof(was));
    if (!is_best)
        t->saved_s = t->env->clock->now_s(t->env->clock);
    if (write_checkpoint(t, is_best, &why) == 0) {
        t->save_failed[0] = '\0';
        t->saved_at = is_best ? t->saved_at : t->at.iteration;
        return 0;
    }
    if (t->spec->checkpoint.on_error == ON_ERROR_FAIL) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (strncmp(was, cause_of(&why), sizeof(was) - 1) != 0)
        report_failure(t, what, "", &why);
    else
        log_warn("worker", "no %s iteration=%" PRId64 " why=\"%s\"", what,
                 t->at.iteration, why.msg);
    return 1;
}

int trainer_save_now(struct trainer *t, struct error *err)
{
    return try_save(t, false, "checkpoint", err) < 0 ? -1 : 0;
}

bool trainer_is_better(const struct job_spec *s, double x, double was)
{
    const bool up = s->checkpoint.mode == MODE_AUTO
                        ? s->checkpoint.metric != METRIC_EVAL_LOSS
                        : s->checkpoint.mode == MODE_MAX;
    return isfinite(x) && (!isfinite(was) || (up ? x > was : x < was));
}

/* The value is the best on every rank, also where rank 0 then cannot save. */
int trainer_save_best(struct trainer *t, const struct evaluation *v,
                      struct error *err)
{
    const struct job_spec *s = t->spec;
    const double x =
        s->checkpoint.metric == METRIC_EVAL_LOSS ? v->loss : v->accuracy;
    if (!s->checkpoint.keep_best || !trainer_is_better(s, x, t->at.best))
        return 0;
    t->at.best = x;
    return try_save(t, true, "best checkpoint", err) < 0 ? -1 : 0;
}

int trainer_save_stop(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err)
{
    struct error why = ERROR_INIT;
    const int64_t lost = t->at.iteration - t->saved_at;
    char text[60] = ", all of them are lost";
    if (!t->spec->checkpoint.on_signal) {
        (void)snprintf(ret_why, cap, "no checkpoint at iteration %" PRId64,
                       t->at.iteration);
        return 0;
    }
    t->saved_s = t->env->clock->now_s(t->env->clock);
    if (write_checkpoint(t, false, &why) == 0) {
        (void)snprintf(ret_why, cap, "checkpoint at iteration %" PRId64,
                       t->at.iteration);
        return 0;
    }
    if (t->spec->checkpoint.on_error == ON_ERROR_FAIL) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (t->saved_at > 0)
        (void)snprintf(text, sizeof(text), ", %" PRId64 " iteration%s lost",
                       lost, lost == 1 ? " is" : "s are");
    report_failure(t, "checkpoint", text, &why);
    (void)snprintf(ret_why, cap, "no checkpoint at iteration %" PRId64 "%s: %s",
                   t->at.iteration, text, cause_of(&why));
    return 0;
}

/* A kind without a result of its own has it in the last checkpoint: if that
 * cannot be written, write the model to train.output_dir. */
static int keep_model(struct trainer *t, struct error *err)
{
    const struct checkpoint_parts parts = trainer_parts(t);
    struct error why = ERROR_INIT;
    if (t->model->ops->save != NULL || t->env->comm->rank != 0)
        return 0;
    if (checkpoint_export(t->env->out_dir, &parts, &why) < 0)
        return error_set(err, why.code,
                         "no last checkpoint, and train.output_dir: %.200s",
                         why.msg);
    trainer_say(t, "the model is in %s", t->env->out_dir);
    return 0;
}

int trainer_save_last(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err)
{
    struct error why = ERROR_INIT;
    const int rc = try_save(t, false, "last checkpoint", &why);
    ret_why[0] = '\0';
    if (rc == 0)
        return 0;
    if (keep_model(t, err) < 0)
        return -1;
    if (rc < 0) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    (void)snprintf(ret_why, cap, "no last checkpoint: %s%s", t->save_failed,
                   t->model->ops->save == NULL
                       ? "; the model is in train.output_dir"
                       : "");
    return 0;
}
