/* curve.c - a curve of a job, thinned: GET /v1/jobs/:id/curve.
 *
 * The rows are read on the reader's thread, in portions, so that a long curve
 * holds up other queries no longer than a page of rows does. Between two
 * portions the request is at the end of the queue again. After ROWS_MAX rows
 * the reply is what there is so far, with a cursor from which the next request
 * goes on; so is that of a curve that is complete, for what is new since. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/curves/curve_cursor.h"
#include "scheduler/ctld/curves/curve_source.h"
#include "scheduler/ctld/curves/thinning.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/latest_values.h"
#include "scheduler/ctld/request/reply.h"

enum {
    PORTION = 50000,     /* rows, and as many attempts: tens of milliseconds */
    ROWS_MAX = 2000000,  /* of one request */
    POINTS_MAX = 10000,  /* of one reply: about 1.5 MiB */
    OWN_NAMES_MAX = 256, /* of latest_values.h */
};

struct curve_request {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    char of[METRIC_NAME_CAP];
    struct curve_source source;
    struct store_query q; /* the next portion: of attempt, after */
    uint64_t job;
    int64_t ranks; /* of the job */
    int64_t cost;  /* rows that are looked at for one: of all ranks */
    int32_t attempt_last;
    int64_t from, to;
    int64_t begin; /* of the next portion; earlier rows were read */
    bool rows_removed, is_over;
    int32_t attempt_now; /* of the job, and how far all ranks are in it */
    int64_t settled;
    int64_t n_read;    /* by all portions: rows, and queries */
    int64_t n_portion; /* by one query */
    struct thinning curve;
    thinning_row row; /* of the iteration that is being read */
    bool has_row;
    double amount, t_iter; /* of its ranks: for a rate */
    int64_t last_x;        /* of this query */
    struct buf out;
    int rc;
    struct error err;
};

/* ---- on the reader's thread -----------------------------------------------
 */

static int end_row(struct curve_request *q, struct error *err)
{
    if (!q->has_row)
        return 0;
    q->has_row = false;
    if (q->source.amount)
        q->row.value = q->t_iter > 0 ? q->amount / q->t_iter : (double)NAN;
    return thinning_add(&q->curve, &q->row, err);
}

static thinning_row begin_row(const struct curve_request *q,
                              const struct store_cell *cells, int64_t x)
{
    const struct curve_source *s = &q->source;
    const bool is_epoch = s->view == VIEW_EPOCH;
    return (thinning_row){
        .attempt = q->q.attempt,
        .first = x,
        .time_s = curve_source_real(s, cells, CURVE_STARTED_AT),
        .epoch = is_epoch ? x : curve_source_cell(s, cells, CURVE_EPOCH)->i,
        .value = curve_source_real(s, cells, CURVE_VALUE)};
}

/* Of several ranks the lowest one that has a row counts; of a rate, all. */
static int take_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    struct curve_request *q = arg;
    const struct curve_source *s = &q->source;
    const int64_t x = curve_source_cell(s, cells, CURVE_X)->i;
    (void)n;
    q->last_x = x;
    q->n_portion++;
    if (x < q->begin || x > q->to || !curve_source_has(s, cells))
        return 0;
    const bool is_first = !q->has_row || q->row.first != x;
    if (is_first) {
        if (end_row(q, err) < 0)
            return -1;
        q->row = begin_row(q, cells, x);
        q->has_row = true;
        q->amount = NAN;
        q->t_iter = 0;
    }
    if (is_first || s->amount)
        q->row.samples += curve_source_cell(s, cells, CURVE_SAMPLES)->i;
    if (s->amount) {
        const double amount = curve_source_real(s, cells, CURVE_VALUE);
        q->amount = isnan(q->amount) ? amount
                    : isnan(amount)  ? q->amount
                                     : q->amount + amount;
        q->t_iter = fmax(q->t_iter, curve_source_real(s, cells, CURVE_T_ITER));
    }
    return 0;
}

/* For a store_query `after` 0 is no bound, so iteration 0 may come again;
 * take_row() leaves it out. Below 0 are rows without an iteration. */
static void begin_at(struct curve_request *q, int64_t begin)
{
    q->begin = begin;
    q->q.after = begin == 1 ? -1 : begin - 1;
}

/* Where the next query begins. A query that was cut may have cut an iteration,
 * whose ranks and names are several rows: it is read again, with a greater
 * limit if the query had nothing behind it. */
static int next_portion(struct curve_request *q, struct error *err)
{
    const bool is_cut = q->n_portion == q->q.limit && q->last_x <= q->to;
    if (is_cut)
        q->has_row = q->has_row && q->row.first != q->last_x;
    if (end_row(q, err) < 0)
        return -1;
    if (is_cut && q->last_x <= q->begin) {
        q->q.limit *= 2;
        return 0;
    }
    if (is_cut) {
        begin_at(q, q->last_x);
        return 0;
    }
    q->is_over = q->q.attempt >= q->attempt_last;
    q->q.attempt += !q->is_over;
    begin_at(q, q->from);
    return 0;
}

static int read_portion(struct curve_request *q, struct error *err)
{
    struct store *s = q->c->parts.store;
    for (int64_t n = 0; n < PORTION && !q->is_over;
         n += 1 + q->n_portion * q->cost) {
        q->n_portion = 0;
        if (s->metrics->query(s, &q->q, take_row, q, err) < 0 ||
            next_portion(q, err) < 0)
            return -1;
        q->n_read += 1 + q->n_portion;
    }
    return 0;
}

struct own_names {
    char text[OWN_NAMES_MAX][METRIC_NAME_CAP];
    const char *at[OWN_NAMES_MAX];
    size_t n;
    struct latest_values *latest;
};

static int take_latest(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    struct own_names *own = arg;
    (void)err;
    latest_values_take(own->latest, cells, n);
    return 0;
}

static int add_name(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    struct own_names *own = arg;
    const char *name = store_cell_text(cells, n, "name");
    (void)err;
    if (name && own->n < OWN_NAMES_MAX) {
        (void)snprintf(own->text[own->n], METRIC_NAME_CAP, "%s", name);
        own->at[own->n] = own->text[own->n];
        own->n++;
    }
    return 0;
}

static int refuse_unknown(const struct curve_request *q,
                          const struct own_names *own, struct error *err)
{
    char word[TEXT_QUOTE_CAP], meant[TEXT_QUOTE_CAP];
    for (size_t i = 0; i < own->n; i++)
        if (strcmp(own->at[i], q->of) == 0)
            return 0; /* it has no value between from and to */
    (void)text_quote(word, sizeof(word), q->of);
    const char *near = curve_source_near(q->of, own->at, own->n);
    if (!near)
        return error_set(err, ERR_NOTFOUND,
                         "job %" PRIu64 " has no metric '%s'", q->job, word);
    (void)text_quote(meant, sizeof(meant), near);
    return error_set(err, ERR_NOTFOUND,
                     "job %" PRIu64 " has no metric '%s'; did you mean '%s'?",
                     q->job, word, meant);
}

/* A metric of the job's own without a value: nobody may have reported it. */
static int check_name(const struct curve_request *q, struct error *err)
{
    struct store *s = q->c->parts.store;
    struct own_names *own = calloc(1, sizeof(*own));
    if (own)
        own->latest = latest_values_create();
    if (!own || !own->latest) {
        free(own);
        return error_set(err, ERR_NOMEM, "curve");
    }
    const struct store_query last = {.view = VIEW_METRIC,
                                     .job = q->job,
                                     .rank = -1,
                                     .last = 1,
                                     .limit = LATEST_ROWS};
    int rc = s->metrics->query(s, &last, take_latest, own, err);
    if (rc == 0)
        rc = latest_values_each(own->latest, add_name, own, err);
    if (rc == 0)
        rc = refuse_unknown(q, own, err);
    free(own->latest);
    free(own);
    return rc;
}

/* The shortest text that is read as the same number. */
static int add_number(struct buf *out, double v, struct error *err)
{
    char text[40];
    if (isinf(v))
        return buf_addstr(out, v > 0 ? ",\"Infinity\"" : ",\"-Infinity\"", err);
    if (isnan(v))
        return buf_addstr(out, ",null", err);
    (void)snprintf(text, sizeof(text), ",%.15g", v);
    if (strtod(text + 1, NULL) != v)
        (void)snprintf(text, sizeof(text), ",%.17g", v);
    return buf_addstr(out, text, err);
}

static int add_bucket(struct buf *out, const struct thinning_bucket *b,
                      struct error *err)
{
    if (buf_addf(out, err, "[%" PRId32 ",%" PRId64 ",%" PRId64, b->attempt,
                 b->first, b->last) < 0 ||
        add_number(out, b->time_s, err) < 0 ||
        add_number(out, b->epoch > 0 ? (double)b->epoch : (double)NAN, err) <
            0 ||
        add_number(out, (double)b->samples, err) < 0 ||
        add_number(out, b->min, err) < 0 || add_number(out, b->max, err) < 0 ||
        add_number(out, b->value, err) < 0)
        return -1;
    return buf_addf(out, err,
                    ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "]", b->n,
                    b->none, b->plus_inf, b->minus_inf);
}

/* Rows of other ranks may come later than those that were read: of an attempt
 * that runs, what not all ranks have reported is read again, but no more than a
 * portion. An epoch has the rows of one rank. */
static int64_t unsettled(const struct curve_request *q, int64_t from)
{
    const int64_t width = q->curve.width;
    const int64_t names = q->source.view == VIEW_METRIC ? OWN_NAMES_MAX : 1;
    const int64_t least = from - PORTION / (q->ranks * names);
    const int64_t at = q->settled > least ? q->settled : least;
    if (q->q.rank >= 0 || q->source.view == VIEW_EPOCH || at >= from)
        return from;
    return at > 0 ? at / width * width : 0;
}

/* Where the next request goes on: at the bucket of what was not read, else at
 * the last one, as what is new may belong to it. */
static int add_cursor(const struct curve_request *q, struct buf *out,
                      struct error *err)
{
    const struct thinning *t = &q->curve;
    const struct thinning_bucket *b = t->n > 0 ? &t->at[t->n - 1] : NULL;
    int32_t attempt = b ? b->attempt : 0;
    int64_t from = b ? b->first / t->width * t->width : 0;
    const int64_t begin = q->begin / t->width * t->width;
    if (!q->is_over &&
        (attempt < q->q.attempt || (attempt == q->q.attempt && from < begin))) {
        attempt = q->q.attempt;
        from = begin;
    }
    if (attempt == q->attempt_now)
        from = unsettled(q, from);
    return attempt == 0 ? buf_addstr(out, "null", err)
                        : buf_addf(out, err, "\"%" PRId32 ".%" PRId64 "\"",
                                   attempt, from);
}

static int write_reply(struct curve_request *q, struct error *err)
{
    const struct thinning *t = &q->curve;
    struct buf *out = &q->out;
    int64_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        n += t->at[i].n;
    json_t *of = json_string(q->of);
    char *name = of ? json_dumps(of, JSON_ENCODE_ANY) : NULL;
    json_decref(of);
    int rc = name ? 0 : error_set(err, ERR_NOMEM, "curve");
    if (rc == 0)
        rc = buf_addf(out, err,
                      "{\"schema\":\"mgpu.curve/1\",\"job\":%" PRIu64
                      ",\"rows_removed\":%s,\"of\":%s,\"x\":\"%s\","
                      "\"complete\":%s,\"width\":%" PRId64 ",\"n\":%" PRId64
                      ",\"cursor\":",
                      q->job, q->rows_removed ? "true" : "false", name,
                      q->source.x, q->is_over ? "true" : "false", t->width, n);
    free(name);
    if (rc == 0)
        rc = add_cursor(q, out, err);
    if (rc == 0)
        rc = buf_addstr(out,
                        ",\"columns\":[\"attempt\",\"first\",\"last\","
                        "\"time\",\"epoch\",\"samples\",\"min\",\"max\","
                        "\"value\",\"n\",\"none\",\"plus_inf\","
                        "\"minus_inf\"],\"rows\":[",
                        err);
    for (size_t i = 0; rc == 0 && i < t->n; i++) {
        rc = i > 0 ? buf_addstr(out, ",", err) : 0;
        if (rc == 0)
            rc = add_bucket(out, &t->at[i], err);
    }
    return rc == 0 ? buf_addstr(out, "]}", err) : -1;
}

static void curve_run(struct task *task)
{
    struct curve_request *q = (struct curve_request *)task;
    q->rc = read_portion(q, &q->err);
    if (q->rc < 0 || (!q->is_over && q->n_read < ROWS_MAX))
        return;
    if (q->curve.n == 0 && q->source.view == VIEW_METRIC && q->is_over)
        q->rc = check_name(q, &q->err);
    if (q->rc == 0)
        q->rc = write_reply(q, &q->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void curve_free(struct curve_request *q)
{
    thinning_clear(&q->curve);
    buf_clear(&q->out);
    free(q);
}

/* After a portion that was not the last one. A reader that stops would take the
 * next one and never run it. */
static int go_on(struct curve_request *q, struct error *err)
{
    if (q->c->stopping || http_is_gone(q->x))
        return error_set(err, ERR_UNAVAIL, "the daemon is stopping");
    return work_queue_post(q->c->reader, &q->task, err);
}

static void curve_done(struct task *task)
{
    struct curve_request *q = (struct curve_request *)task;
    const bool is_read = q->out.len > 0;
    if (q->rc == 0 && !is_read) {
        if (go_on(q, &q->err) == 0)
            return; /* it is the reader's again */
        q->rc = -1;
    }
    if (q->rc < 0)
        http_reply_err(q->x, &q->err);
    else
        http_reply_json(q->x, 200, buf_str(&q->out), q->out.len);
    curve_free(q);
}

static bool refuse(struct http_exchange *x, const char *what, const char *text,
                   const char *expected)
{
    struct error err = ERROR_INIT;
    (void)error_set(&err, ERR_INVAL, "%s=%.40s: expected %s", what, text,
                    expected);
    http_reply_err(x, &err);
    return false;
}

/* What is asked for, of `like`; false: it has replied with why. */
static bool take_request(struct ctld *c, struct http_exchange *x,
                         struct curve_request *q, int64_t *ret_points,
                         int64_t *ret_width)
{
    const struct job *job = NULL;
    int64_t attempt = 0, rank = 0, own = 0;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job) ||
        !ctld_query_int(x, "attempt", 1, INT32_MAX, 0, &attempt) ||
        !ctld_query_int(x, "rank", 0, INT32_MAX, -1, &rank) ||
        !ctld_query_int(x, "from", 0, INT64_MAX, 0, &q->from) ||
        !ctld_query_int(x, "to", 0, INT64_MAX, INT64_MAX, &q->to) ||
        !ctld_query_int(x, "own", 0, 1, 0, &own) ||
        !ctld_query_int(x, "points", 2, POINTS_MAX, 1000, ret_points) ||
        !ctld_query_int(x, "width", 1, THINNING_WIDTH_MAX, 1, ret_width))
        return false;
    const char *of = http_query(x, "of");
    if (!of || !*of)
        return refuse(x, "of", "", "the name of a metric, as in of=loss");
    if (*ret_width & (*ret_width - 1))
        return refuse(x, "width", http_query(x, "width"), "a power of two");
    /* No longer name was ever stored. */
    (void)snprintf(q->of, sizeof(q->of), "%.64s", of);
    if (strlen(of) >= sizeof(q->of))
        return refuse(x, "of", of, "at most 64 bytes");
    struct curve_cursor at = {.attempt = (int32_t)attempt, .x = q->from};
    struct error err = ERROR_INIT;
    const char *cursor = http_query(x, "cursor");
    if (cursor && *cursor &&
        curve_cursor_parse(cursor, attempt, &at, &err) < 0) {
        http_reply_err(x, &err);
        return false;
    }
    q->job = job->id;
    q->attempt_last =
        attempt > 0 && attempt < job->attempt ? (int32_t)attempt : job->attempt;
    q->attempt_now = job->attempt;
    q->settled = curve_cursor_settled(c, job);
    q->rows_removed = metrics_retention_has_removed(c, job);
    curve_source_find(q->of, own, &q->source);
    q->q.view = q->source.view;
    q->q.columns = q->source.columns;
    q->q.job = job->id;
    q->q.attempt = at.attempt > 0 ? at.attempt : 1;
    q->q.rank = (int32_t)rank;
    if (rank < 0 && q->source.view == VIEW_ITERATION && !q->source.amount)
        q->q.rank = 0;
    begin_at(q, at.x > q->from ? at.x : q->from);
    q->ranks = curve_cursor_ranks(job);
    q->cost = q->q.rank >= 0 ? q->ranks : 1;
    q->q.limit = PORTION / q->cost + 1;
    q->is_over = q->q.attempt > q->attempt_last;
    return true;
}

void serve_curve(void *arg, struct http_exchange *x)
{
    struct curve_request like = {
        .task = {.run = curve_run, .done = curve_done}, .c = arg, .x = x};
    int64_t points = 0, width = 0;
    struct error err = ERROR_INIT;
    if (!take_request(arg, x, &like, &points, &width))
        return;
    struct curve_request *q = malloc(sizeof(*q));
    int rc = q ? 0 : error_set(&err, ERR_NOMEM, "curve");
    if (q) {
        *q = like;
        q->source.name = q->of; /* its own copy */
        buf_init(&q->out);
        rc = thinning_init(&q->curve, (size_t)points, width, &err);
        if (rc == 0)
            rc = work_queue_post(q->c->reader, &q->task, &err);
    }
    if (rc < 0) {
        http_reply_err(x, &err);
        if (q)
            curve_free(q);
    }
}
