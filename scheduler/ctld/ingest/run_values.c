/* run_values.c - values of a run, sent by the program itself.
 *
 * The body of a request is a batch of lines as a program of a job writes them
 * into $MGPU_METRICS. Like the rows of a worker, a batch names the bytes that
 * were sent before it, and is acknowledged by the bytes that are stored: a
 * program that did not get a reply sends the batch again, and nothing is stored
 * twice. An empty batch says that the program lives.
 *
 * A line that is no row does not fail its batch: it is skipped, and the reply
 * says which one it was and why, as mgpu-worker's log does in a job. So does
 * the reply name the members that are no metrics.
 */
#include "scheduler/ctld/ingest/run_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "jobs/wire/metric_rows.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/ingest/attempt_metrics.h"
#include "scheduler/ctld/ingest/metric_ingest.h"
#include "scheduler/ctld/request/reply.h"
#include "scheduler/engine/run.h"

enum { ATTEMPT = 1, RANK = 0, ROWS_PER_LINE = 64 };

struct run_batch {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job;
    int64_t offset;
    run_values_told *told;
    size_t len;
    char *text;                      /* owned */
    struct metric_name_limit *names; /* a reference */
    struct ingest_count count;
    struct engine_beat beat;       /* what the lines say of the progress */
    int64_t bad_line;              /* the first, from 1; 0: none */
    struct error bad_why;          /* of that */
    struct metric_ignored ignored; /* of all lines; the first ones are named */
    int rc;
    struct error err;
};

static void run_batch_free(struct run_batch *b)
{
    metric_name_limit_unref(b->names);
    free(b->text);
    free(b);
}

/* ---- on the writer's thread -----------------------------------------------
 */
static void take_total(struct engine_beat *b, const struct metric_value *v)
{
    const double most = 9007199254740992.0; /* 2^53: a double is exact */
    bool is_epochs = strcmp(v->name, "epochs_total") == 0;

    if (!(v->value >= 1 && v->value <= (is_epochs ? (double)INT32_MAX : most)))
        return;
    if (is_epochs)
        b->epochs_total = (int32_t)v->value;
    else
        b->iterations_total = (int64_t)v->value;
}

static void take_progress(struct engine_beat *b, const struct metric_row *row)
{
    if (metric_is_total(row)) {
        take_total(b, &row->value);
    } else if (row->kind == METRIC_ITERATION) {
        b->iteration = row->iteration.iteration;
        b->loss = row->iteration.loss;
        b->t_iter = row->iteration.t_iter > 0 ? row->iteration.t_iter : NAN;
        if (row->iteration.epoch > 0)
            b->epoch = row->iteration.epoch;
    } else if (row->kind == METRIC_VALUE) {
        if (row->value.iteration > b->iteration)
            b->iteration = row->value.iteration;
    } else if (row->kind == METRIC_EPOCH) {
        b->epoch = row->epoch.epoch;
        b->eval_loss = row->epoch.eval_loss;
        b->eval_accuracy = row->epoch.eval_accuracy;
    }
}

static bool is_named(const struct metric_ignored *all, const char *name)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->keys[i].name, name) == 0)
            return true;
    return false;
}

static void add_ignored(struct metric_ignored *all,
                        const struct metric_ignored *more)
{
    for (size_t i = 0; i < more->n && i < METRIC_IGNORED_CAP; i++)
        if (all->n < METRIC_IGNORED_CAP && !is_named(all, more->keys[i].name))
            all->keys[all->n++] = more->keys[i];
}

static void look_at_line(struct run_batch *b, const char *line, size_t len,
                         int64_t number)
{
    struct metric_row rows[ROWS_PER_LINE];
    struct metric_ignored ignored;
    struct error why = ERROR_INIT;
    size_t n = 0;

    if (metric_line_decode_named(line, len, RANK, rows, ROWS_PER_LINE, &n,
                                 &ignored, &why) < 0) {
        if (b->bad_line == 0) {
            b->bad_line = number;
            b->bad_why = why;
        }
        return;
    }
    add_ignored(&b->ignored, &ignored);
    for (size_t i = 0; i < n; i++)
        take_progress(&b->beat, &rows[i]);
}

static void look_at_lines(struct run_batch *b)
{
    int64_t number = 1;

    for (size_t at = 0; at < b->len; number++) {
        const char *end = memchr(b->text + at, '\n', b->len - at);
        size_t n = end ? (size_t)(end - b->text) - at : b->len - at;
        if (n > 0)
            look_at_line(b, b->text + at, n, number);
        at += n + 1;
    }
}

static void run_batch_run(struct task *t)
{
    struct run_batch *b = (struct run_batch *)t;

    look_at_lines(b);
    b->count.curves = b->c->curve_cache;
    b->rc = metric_ingest_store(b->c->parts.store, b->job, ATTEMPT, RANK,
                                b->names, b->text, b->len, &b->count, &b->err);
}

/* ---- on the loop ----------------------------------------------------------
 */
/* Takes b for what its lines said; NULL: they came before, or there are none.
 */
static void reply_acked(struct http_exchange *x, int64_t acked,
                        const struct run_batch *b)
{
    json_t *ignored = json_array();

    for (size_t i = 0; b && i < b->ignored.n; i++)
        (void)json_array_append_new(
            ignored, json_pack("{s:s, s:s}", "key", b->ignored.keys[i].name,
                               "why", b->ignored.keys[i].why));
    ctld_reply(x, 200,
               json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "schema",
                         "mgpu.acked/1", "acked", (json_int_t)acked, "dropped",
                         (json_int_t)(b ? b->count.dropped : 0), "unwanted",
                         (json_int_t)(b ? b->count.unwanted : 0), "line",
                         (json_int_t)(b ? b->bad_line : 0), "why",
                         ctld_text(b && b->bad_line ? b->bad_why.msg : NULL),
                         "ignored", ignored));
}

static void run_batch_done(struct task *t)
{
    struct run_batch *b = (struct run_batch *)t;
    struct ctld *c = b->c;
    struct attempt_metrics *m = attempt_metrics_of(c, b->job, ATTEMPT, false);
    int64_t *acked = m ? attempt_metrics_acked(m, RANK) : NULL;
    int64_t end = b->offset + (int64_t)b->len;

    if (b->rc < 0) {
        log_warn("metrics",
                 "values of a run not stored, its program sends them again "
                 "job=%llu why=\"%s\"",
                 (unsigned long long)b->job, b->err.msg);
        http_reply_err(b->x, &b->err);
    } else {
        metric_ingest_count(c, &b->count);
        if (acked && *acked < end)
            *acked = end;
        engine_run_beat(c->engine, b->job, &b->beat);
        b->told(c, b->job);
        reply_acked(b->x, acked ? *acked : end, b);
    }
    run_batch_free(b);
}

static int post(struct ctld *c, struct http_exchange *x, uint64_t job,
                int64_t offset, const struct attempt_metrics *m,
                run_values_told *told, struct error *err)
{
    size_t len = 0;
    const char *body = http_body(x, &len);
    struct run_batch *b = calloc(1, sizeof(*b));
    char *text = b ? malloc(len + 1) : NULL;

    if (!text) {
        free(b);
        return error_set(err, ERR_NOMEM, "%zu bytes of values", len);
    }
    *b = (struct run_batch){
        .task = {.run = run_batch_run, .done = run_batch_done},
        .c = c,
        .x = x,
        .job = job,
        .offset = offset,
        .told = told,
        .len = len,
        .text = text,
        .names = metric_name_limit_ref(m->names),
        .beat = {-1, -1, -1, -1, NAN, NAN, NAN, NAN, .work = -1},
    };
    memcpy(text, body, len);
    if (work_queue_post(c->writer, &b->task, err) < 0) {
        run_batch_free(b);
        return -1;
    }
    return 0;
}

int run_values_take(struct ctld *c, struct http_exchange *x, uint64_t job,
                    int64_t offset, run_values_told *told, struct error *err)
{
    static const struct engine_beat nothing = {-1,  -1,  -1,  -1,        NAN,
                                               NAN, NAN, NAN, .work = -1};
    size_t len = 0;

    (void)http_body(x, &len);
    if (engine_run_check(c->engine, job, http_uid(x), err) < 0)
        return -1;
    /* Also when its values cannot be stored: its program lives. */
    engine_run_beat(c->engine, job, &nothing);
    struct attempt_metrics *m = attempt_metrics_of(c, job, ATTEMPT, true);
    int64_t *acked = m ? attempt_metrics_acked(m, RANK) : NULL;
    if (!acked)
        return error_set(err, ERR_NOMEM, "values");
    bool is_gap = *acked >= 0 && offset > *acked;
    if (is_gap || len == 0 || offset + (int64_t)len <= *acked) {
        reply_acked(x, is_gap || offset < *acked ? *acked : offset, NULL);
        return 0;
    }
    return post(c, x, job, offset, m, told, err);
}

/* ---- at the start ----------------------------------------------------------
 */
void run_values_resume(struct ctld *c)
{
    const struct job *job = engine_next_since(c->engine, 0, INFINITY);

    for (; job; job = engine_next_since(c->engine, job->id, INFINITY)) {
        struct attempt_progress seen;
        struct error err = ERROR_INIT;
        if (!job->is_run || !job_state_is_live(job->state))
            continue;
        if (attempt_progress_read(c->parts.store, job->id, ATTEMPT, &seen,
                                  &err) == 0)
            attempt_progress_use(c->engine, job, &seen);
        else
            log_warn("metrics",
                     "cannot read the progress of a run job=%llu why=\"%s\"",
                     (unsigned long long)job->id, err.msg);
    }
}
