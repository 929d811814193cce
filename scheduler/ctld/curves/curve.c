/* curve.c - a curve of a job, thinned: GET /v1/jobs/:id/curve.
 *
 * The rows are read on the reader's thread, in portions, so that a long curve
 * holds up other queries no longer than a page of rows does. Between two
 * portions the request is at the end of the queue again. After ROWS_MAX rows
 * the reply is what there is so far, with a cursor from which the next request
 * goes on; so is that of a curve that is complete, for what is new since.
 *
 * A whole curve is kept (curve_cache.h), so that the next request for it reads
 * what is new. Then the reply has, besides the cursor, how many rows of the
 * store are before it. If they are not as many when the request comes back,
 * rows came late or were removed, and the reply is the whole curve again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/curve_data/curve_cache.h"
#include "scheduler/ctld/curve_data/curve_read.h"
#include "scheduler/ctld/curve_data/curve_source.h"
#include "scheduler/ctld/curve_data/thinning.h"
#include "scheduler/ctld/curves/curve_cursor.h"
#include "scheduler/ctld/curves/curve_reply.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/latest_values.h"
#include "scheduler/ctld/request/reply.h"

enum {
    ROWS_MAX = 2000000,  /* of one request */
    POINTS_MAX = 10000,  /* of one reply: about 1.5 MiB */
    OWN_NAMES_MAX = 256, /* of latest_values.h */
};

struct curve_request {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    char of[METRIC_NAME_CAP];
    struct curve_read read; /* of a curve that is not kept; else as it begins */
    bool is_kept;
    bool has_cursor;
    struct curve_cursor cursor; /* of the request, */
    int64_t before;             /* and the rows that were before it */
    int64_t points, width;
    int64_t ranks; /* of the job */
    bool rows_removed;
    int32_t attempt_now; /* of the job, and how far all ranks are in it */
    int64_t settled;
    int64_t n_read; /* by all portions: rows, and queries */
    struct buf out;
    int rc;
    struct error err;
};

/* ---- on the reader's thread -----------------------------------------------
 */

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
                         "job %" PRIu64 " has no metric '%s'", q->read.job,
                         word);
    (void)text_quote(meant, sizeof(meant), near);
    return error_set(err, ERR_NOTFOUND,
                     "job %" PRIu64 " has no metric '%s'; did you mean '%s'?",
                     q->read.job, word, meant);
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
                                     .job = q->read.job,
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

/* Rows of other ranks may come later than those that were read: of an attempt
 * that runs, what not all ranks have reported is read again, but no more than a
 * portion. An epoch has the rows of one rank. */
static int64_t unsettled(const struct curve_request *q, int64_t from,
                         int64_t width)
{
    const enum store_view view = q->read.source.view;
    const int64_t names = view == VIEW_METRIC ? OWN_NAMES_MAX : 1;
    const int64_t least = from - CURVE_PORTION / (q->ranks * names);
    const int64_t at = q->settled > least ? q->settled : least;
    if (q->read.rank >= 0 || view == VIEW_EPOCH || at >= from)
        return from;
    return at > 0 ? at / width * width : 0;
}

/* Where the next request goes on: at the bucket of what was not read, else at
 * the last one, as what is new may belong to it. */
static struct curve_cursor next_cursor(const struct curve_request *q,
                                       const struct thinning *t,
                                       const struct curve_read *r)
{
    const struct thinning_bucket *b = t->n > 0 ? &t->at[t->n - 1] : NULL;
    struct curve_cursor at = {.attempt = b ? b->attempt : 0,
                              .x = b ? b->first / t->width * t->width : 0};
    const int64_t begin = r->begin / t->width * t->width;
    if (!r->is_over &&
        (at.attempt < r->attempt || (at.attempt == r->attempt && at.x < begin)))
        at = (struct curve_cursor){.attempt = r->attempt, .x = begin};
    if (at.attempt == q->attempt_now)
        at.x = unsettled(q, at.x, t->width);
    return at;
}

/* Takes a kept curve from the cursor on; all of it, if what is before the
 * cursor is not what it was.
 * out  *ret_whole */
static int take_kept(const struct curve_request *q, const struct thinning *all,
                     struct thinning *t, bool *ret_whole, struct error *err)
{
    const struct curve_cursor at = q->cursor;
    const size_t n = q->has_cursor ? thinning_find(all, at.attempt, at.x) : 0;
    *ret_whole = !q->has_cursor || at.x % all->width != 0 ||
                 thinning_stored(all, n) != q->before;
    thinning_init(t, (size_t)q->points,
                  q->width > all->width ? q->width : all->width);
    for (size_t i = *ret_whole ? 0 : n; i < all->n; i++)
        if (thinning_put(t, &all->at[i], err) < 0)
            return -1;
    return 0;
}

static int write_reply(struct curve_request *q, const struct curve_read *r,
                       struct error *err)
{
    struct thinning part = {.n = 0};
    struct curve_reply reply = {.job = q->read.job,
                                .of = q->of,
                                .x = q->read.source.x,
                                .rows_removed = q->rows_removed,
                                .is_complete = r->is_over,
                                .is_kept = q->is_kept,
                                .curve = q->is_kept ? &part : &r->curve};
    int rc =
        q->is_kept ? take_kept(q, &r->curve, &part, &reply.is_whole, err) : 0;
    if (rc == 0) {
        const struct curve_cursor at = next_cursor(q, reply.curve, r);
        reply.cursor = at;
        reply.before = thinning_stored(
            &r->curve, thinning_find(&r->curve, at.attempt, at.x));
        rc = curve_reply_write(&reply, &q->out, err);
    }
    thinning_clear(&part);
    return rc;
}

/* The next portion, and the reply after the last one.
 * out  *ret  what was read */
static int read_on(struct curve_request *q, const struct curve_read **ret,
                   struct error *err)
{
    struct store *s = q->c->parts.store;
    *ret = &q->read;
    return q->is_kept ? curve_cache_read(q->c->curve_cache, s, &q->read,
                                         &q->n_read, ret, err)
                      : curve_read_portion(&q->read, s, &q->n_read, err);
}

static void curve_run(struct task *task)
{
    struct curve_request *q = (struct curve_request *)task;
    const struct curve_read *r = NULL;
    q->rc = read_on(q, &r, &q->err);
    if (q->rc < 0 || (!r->is_over && q->n_read < ROWS_MAX))
        return;
    if (r->curve.n == 0 && r->source.view == VIEW_METRIC && r->is_over)
        q->rc = check_name(q, &q->err);
    if (q->rc == 0)
        q->rc = write_reply(q, r, &q->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void curve_free(struct curve_request *q)
{
    curve_read_clear(&q->read);
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

/* Which part of the curve: false, it has replied with why. */
static bool take_part(struct http_exchange *x, struct curve_request *q,
                      int64_t *ret_attempt)
{
    struct error err = ERROR_INIT;
    const char *cursor = http_query(x, "cursor");
    int64_t rank = 0;
    if (!ctld_query_int(x, "attempt", 1, INT32_MAX, 0, ret_attempt) ||
        !ctld_query_int(x, "rank", 0, INT32_MAX, -1, &rank) ||
        !ctld_query_int(x, "from", 0, INT64_MAX, 0, &q->read.from) ||
        !ctld_query_int(x, "to", 0, INT64_MAX, INT64_MAX, &q->read.to) ||
        !ctld_query_int(x, "before", 0, INT64_MAX, -1, &q->before))
        return false;
    q->has_cursor = cursor && *cursor;
    if (q->has_cursor &&
        curve_cursor_parse(cursor, *ret_attempt, &q->cursor, &err) < 0) {
        http_reply_err(x, &err);
        return false;
    }
    q->read.rank = (int32_t)rank;
    q->is_kept = *ret_attempt == 0 && rank < 0 && q->read.from == 0 &&
                 q->read.to == INT64_MAX && q->points <= CURVE_CACHE_POINTS &&
                 (!q->has_cursor || q->before >= 0);
    return true;
}

/* What is asked for; false: it has replied with why. */
static bool take_request(struct ctld *c, struct http_exchange *x,
                         struct curve_request *q)
{
    const struct job *job = NULL;
    int64_t attempt = 0, own = 0;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job) ||
        !ctld_query_int(x, "own", 0, 1, 0, &own) ||
        !ctld_query_int(x, "points", 2, POINTS_MAX, 1000, &q->points) ||
        !ctld_query_int(x, "width", 1, THINNING_WIDTH_MAX, 1, &q->width))
        return false;
    const char *of = http_query(x, "of");
    if (!of || !*of)
        return refuse(x, "of", "", "the name of a metric, as in of=loss");
    if (q->width & (q->width - 1))
        return refuse(x, "width", http_query(x, "width"), "a power of two");
    /* No longer name was ever stored. */
    (void)snprintf(q->of, sizeof(q->of), "%.64s", of);
    if (strlen(of) >= sizeof(q->of))
        return refuse(x, "of", of, "at most 64 bytes");
    if (!take_part(x, q, &attempt))
        return false;
    struct curve_read *r = &q->read;
    curve_source_find(q->of, own, &r->source);
    r->job = job->id;
    r->attempt_last =
        attempt > 0 && attempt < job->attempt ? (int32_t)attempt : job->attempt;
    r->attempt = q->has_cursor ? q->cursor.attempt
                 : attempt > 0 ? (int32_t)attempt
                               : 1;
    r->begin = q->cursor.x > r->from ? q->cursor.x : r->from;
    if (r->rank < 0 && r->source.view == VIEW_ITERATION && !r->source.amount)
        r->rank = 0;
    q->ranks = curve_cursor_ranks(job);
    r->cost = r->rank >= 0 ? q->ranks : 1;
    q->attempt_now = job->attempt;
    q->settled = curve_cursor_settled(c, job);
    q->rows_removed = metrics_retention_has_removed(c, job);
    return true;
}

void serve_curve(void *arg, struct http_exchange *x)
{
    struct curve_request like = {
        .task = {.run = curve_run, .done = curve_done}, .c = arg, .x = x};
    struct error err = ERROR_INIT;
    if (!take_request(arg, x, &like))
        return;
    struct curve_request *q = malloc(sizeof(*q));
    int rc = q ? 0 : error_set(&err, ERR_NOMEM, "curve");
    if (q) {
        *q = like;
        curve_read_init(&q->read, &like.read, (size_t)like.points, like.width);
        q->read.source.name = q->of; /* its own copy */
        buf_init(&q->out);
        rc = work_queue_post(q->c->reader, &q->task, &err);
    }
    if (rc < 0) {
        http_reply_err(x, &err);
        if (q)
            curve_free(q);
    }
}
