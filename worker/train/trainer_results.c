/* trainer_results.c - see trainer_results.h. */
#include "worker/train/trainer_results.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/train/trainer_internal.h"
#include "worker/train/trainer_save.h"

/* ---- samples -------------------------------------------------------------
 */

/* A line of JSON, from malloc. */
static char *line_of(const struct trainer *t, const char *prompt,
                     const struct buf *answer)
{
    json_t *o =
        json_pack("{s:I, s:s, s:s}", "iteration", (json_int_t)t->at.iteration,
                  "prompt", prompt, "answer", buf_str(answer));
    char *text = json_dumps(o, JSON_COMPACT | JSON_PRESERVE_ORDER);
    json_decref(o);
    return text;
}

static int append_line(const char *path, const char *text, struct error *err)
{
    const size_t n = strlen(text);
    int rc = 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    if (write(fd, text, n) != (ssize_t)n || write(fd, "\n", 1) != 1)
        rc = error_sys(err, errno, "write '%s'", path);
    if (close(fd) < 0 && rc == 0)
        rc = error_sys(err, errno, "close '%s'", path);
    return rc;
}

/* Rank 0's answer, in its log and file. */
static int note_sample(struct trainer *t, const char *prompt,
                       const struct buf *answer, struct error *err)
{
    struct buf path = BUF_INIT;
    char *text = line_of(t, prompt, answer);
    int rc =
        text != NULL ? 0 : error_set(err, ERR_INVAL, "the answer is not UTF-8");
    if (rc == 0)
        trainer_say(t, "sample: %s", text);
    rc =
        rc < 0 ? rc : buf_addf(&path, err, "%s/samples.jsonl", t->env->out_dir);
    rc = rc < 0 ? rc : append_line(buf_str(&path), text, err);
    free(text);
    buf_clear(&path);
    return rc;
}

static int one_sample(struct trainer *t, const char *prompt, struct buf *answer,
                      struct error *err)
{
    const struct model_choice c = {
        .max_new = t->spec->train.sample.max_new_tokens,
        .temperature = t->spec->train.sample.temperature,
        .top_k = t->spec->train.sample.top_k,
        .top_p = t->spec->train.sample.top_p,
        .seed = (uint32_t)t->spec->train.seed};
    buf_reset(answer);
    return t->model->ops->sample(t->model, prompt, &c, answer, err);
}

/* Rank 0 makes samples, or all do where it takes all of them; then each makes
 * the same ones, whatever becomes of rank 0's file. */
static bool has_part(const struct trainer *t)
{
    return t->env->comm->rank == 0 || t->model->ops->is_sharded;
}

void trainer_sample(struct trainer *t)
{
    const struct spec_list *prompts = &t->spec->train.sample.prompts;
    struct buf answer = BUF_INIT;
    struct error err = ERROR_INIT;
    int rc = 0, noted = 0;
    if (prompts->n == 0 || !has_part(t) || t->model->ops->sample == NULL)
        return;
    for (size_t i = 0; i < prompts->n && rc == 0; i++) {
        const char *prompt = prompts->items[i];
        rc = one_sample(t, prompt, &answer, &err);
        if (rc == 0 && noted == 0 && t->env->comm->rank == 0)
            noted = note_sample(t, prompt, &answer, &err);
        reporter_alive(t->env->reporter);
    }
    buf_clear(&answer);
    if (rc < 0 || noted < 0)
        log_warn("worker",
                 "cannot sample the model, training continues why=\"%s\"",
                 err.msg);
}

static bool is_due(const struct trainer *t, double now_s)
{
    const struct spec_every *e = &t->samples.every;
    switch (e->unit) {
    case EVERY_STEPS:
        return t->at.iteration % (int64_t)e->n == 0;
    case EVERY_SECONDS:
        return now_s - t->samples.last_s >= e->n;
    case EVERY_EPOCHS:
        return t->at.batch == t->batches && t->at.epoch % (int64_t)e->n == 0;
    }
    return false;
}

/* Rank 0 alone asks: its clock decides. */
static bool allows(struct trainer *t, double now_s)
{
    if (!is_due(t, now_s))
        return false;
    if (sample_times_allow(&t->samples, now_s))
        return true;
    if (!t->samples.has_said)
        trainer_say(t,
                    "samples as often as train.sample.every would take "
                    "more than %.0f %% of the time: some are skipped",
                    100 * SAMPLE_SHARE);
    t->samples.has_said = true;
    return false;
}

int trainer_sample_between(struct trainer *t, struct error *err)
{
    const struct clock *clock = t->env->clock;
    double begin_s = clock->now_s(clock);
    if (!t->samples.is_on || !has_part(t) || t->at.iteration == t->total)
        return 0;
    int64_t now = t->env->comm->rank == 0 && allows(t, begin_s);
    if (t->model->ops->is_sharded &&
        comm_broadcast_now(t->env->comm, &now, sizeof(now), 0, TRAIN_DEADLINE_S,
                           err) < 0)
        return error_wrap(err, "sample");
    if (!now)
        return 0;
    trainer_sample(t);
    sample_times_add(&t->samples, begin_s, clock->now_s(clock));
    return 0;
}

/* ---- files ---------------------------------------------------------------
 */

static bool has_best(const struct trainer *t)
{
    return t->spec->checkpoint.keep_best && isfinite(t->at.best);
}

/* A newer best was found, and could not be saved. */
static bool misses_best(const struct trainer *t,
                        const struct checkpoint_state *best)
{
    return best != NULL && trainer_is_better(t->spec, t->at.best, best->best);
}

static int write_card(struct trainer *t, const char *dir,
                      const struct checkpoint_state *best, struct error *err)
{
    char data[200];
    t->source->ops->describe(t->source, t->batches, data, sizeof(data));
    const struct model_facts f = {
        .data = data,
        .iteration = best != NULL ? best->iteration : t->at.iteration,
        .epochs = t->spec->train.epochs,
        .parent = t->spec->train.resume_from == NULL ? NULL
                  : t->env->parent != NULL           ? t->env->parent
                                                     : "",
        .is_best = best != NULL,
        .has_rows = t->eval_batches > 0,
        .missed = misses_best(t, best) ? t->at.best : (double)NAN,
        .loss = best != NULL ? best->best : t->eval_loss};
    return t->model->ops->save_card != NULL
               ? t->model->ops->save_card(t->model, dir, &f, err)
               : 0;
}

/* Rank 0 writes the model into dir, as it is now.
 * in  best  the position of the best, if that is what it is; or NULL */
static int write_model(struct trainer *t, const char *dir,
                       const struct checkpoint_state *best, const char *what,
                       struct error *err)
{
    const bool mixed = t->mixed.dev != NULL;
    if (checkpoint_make_dirs(dir, err) < 0 ||
        t->model->ops->save(t->model, dir,
                            mixed ? t->mixed.weights : model_params(t->model),
                            mixed ? DT_F32 : t->dt, err) < 0 ||
        write_card(t, dir, best, err) < 0)
        return error_wrap(err, "train.output_dir");
    trainer_say(t, "saved %sin %s", what, dir);
    return 0;
}

static int write_last(struct trainer *t, struct error *err)
{
    struct buf dir = BUF_INIT;
    if (!has_best(t))
        return write_model(t, t->env->out_dir, NULL, "", err);
    int rc = buf_addf(&dir, err, "%s/last", t->env->out_dir);
    rc = rc < 0 ? rc : write_model(t, buf_str(&dir), NULL, "the last ", err);
    buf_clear(&dir);
    return rc;
}

static void say_missed(const struct trainer *t,
                       const struct checkpoint_state *best, char *ret_why,
                       size_t cap)
{
    if (misses_best(t, best))
        (void)snprintf(ret_why, cap,
                       "train.output_dir has an earlier best, of iteration "
                       "%" PRId64 ": a better one could not be saved",
                       best->iteration);
}

/* Takes the best into the model: nobody needs the last any more. One that is
 * damaged is found before the model is changed. If the change itself fails the
 * model is neither, and nothing is written: the last is in last/. */
static int write_best(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err)
{
    const struct checkpoint_parts parts = trainer_parts(t);
    struct checkpoint_state best = {0};
    struct error why = ERROR_INIT;
    struct buf dir = BUF_INIT;
    char what[80];
    bool is_read = false;
    int rc = buf_addf(&dir, err, "%s/best", t->env->ckpt_dir);
    const bool is_taken =
        rc == 0 &&
        checkpoint_load_one(buf_str(&dir), &parts, &best, &is_read, &why) == 0;
    if (rc == 0 && !is_taken && is_read) {
        rc = error_set(err, why.code,
                       "the last is in last/, the best cannot be used: %.300s",
                       why.msg);
    } else if (rc == 0 && !is_taken) {
        log_warn("worker", "the best checkpoint is not used why=\"%s\"",
                 why.msg);
        (void)snprintf(ret_why, cap,
                       "train.output_dir has the last, the best cannot be "
                       "read");
        rc = write_model(t, t->env->out_dir, NULL, "the last ", err);
    } else if (rc == 0) {
        (void)snprintf(what, sizeof(what),
                       "the best, of iteration %" PRId64 ", ", best.iteration);
        rc = write_model(t, t->env->out_dir, &best, what, err);
        say_missed(t, &best, ret_why, cap);
    }
    buf_clear(&dir);
    return rc;
}

/* As the part of rank 0, if the parameters are shared. */
static int end_sharing(struct trainer *t, int rc, struct error *err)
{
    if (t->exchange != NULL && shard_end(t->exchange, rc < 0 ? NULL : err) < 0)
        rc = -1;
    reporter_saving(t->env->reporter, false);
    return rc;
}

int trainer_save_result(struct trainer *t, struct error *err)
{
    if (t->model->ops->save == NULL)
        return 0;
    if (t->env->comm->rank != 0)
        return t->exchange != NULL ? shard_serve(t->exchange, err) : 0;
    reporter_saving(t->env->reporter, true);
    return end_sharing(t, write_last(t, err), err);
}

int trainer_export_best(struct trainer *t, char *ret_why, size_t cap,
                        struct error *err)
{
    ret_why[0] = '\0';
    if (t->model->ops->save == NULL || !has_best(t))
        return 0;
    if (t->env->comm->rank != 0)
        return t->exchange != NULL ? shard_serve(t->exchange, err) : 0;
    reporter_saving(t->env->reporter, true);
    return end_sharing(t, write_best(t, ret_why, cap, err), err);
}
