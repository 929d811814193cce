/* queries.c - what the store knows, read on the reader's thread so
 * that a query over a million rows holds up neither a heartbeat nor the
 * writer. The reply's text is made there too. */
#include "scheduler/ctld/api/queries.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/view.h"
#include "jobs/schema/schema.h"
#include "jobs/wire/wire.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/request/archive_load.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/latest_values.h"
#include "scheduler/ctld/request/reply.h"

/* About 20 MiB of JSON. Whoever wants more asks again with after=, or asks
 * SQLite itself. */
enum { ROWS_MAX = 100000 };
struct query {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    struct store_query q;
    const char *schema;
    int (*row)(void *arg, const struct store_cell *cells, size_t n,
               struct error *err);
    bool is_job;                  /* the reply is mgpu.job/1 with attempts */
    struct latest_values *latest; /* NULL: all rows */
    int32_t attempt;              /* the newest one */
    bool has_removed,
        rows_removed; /* it says so; see metrics_retention_has_removed() */
    struct buf out;
    size_t n_rows;
    int rc;
    struct error err;
};

/* ---- on the reader's thread -----------------------------------------------
 */

static int add_json(struct buf *out, json_t *o, struct error *err)
{
    char *text = o ? json_dumps(o, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(o);
    int rc =
        text ? buf_addstr(out, text, err) : error_set(err, ERR_NOMEM, "query");
    free(text);
    return rc;
}

static int add_cell(struct buf *out, const struct store_cell *cell,
                    struct error *err)
{
    switch (cell->kind) {
    case CELL_INT:
        return buf_addf(out, err, "%lld", (long long)cell->i);
    case CELL_REAL:
        if (isinf(cell->r)) /* as in JavaScript; the number 1e999 would be
                             * refused by many readers */
            return buf_addstr(
                out, cell->r > 0 ? "\"Infinity\"" : "\"-Infinity\"", err);
        return isnan(cell->r) ? buf_addstr(out, "null", err)
                              : buf_addf(out, err, "%.17g", cell->r);
    case CELL_TEXT:
        return add_json(out, ctld_text(cell->s), err);
    default:
        return buf_addstr(out, "null", err);
    }
}

/* One row as an array, without the column "job". */
static int row_array(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    struct query *q = arg;
    bool first = true;
    if (buf_addstr(&q->out, q->n_rows++ ? ",[" : "[", err) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(cells[i].name, "job") == 0)
            continue;
        if ((!first && buf_addstr(&q->out, ",", err) < 0) ||
            add_cell(&q->out, &cells[i], err) < 0)
            return -1;
        first = false;
    }
    return buf_addstr(&q->out, "]", err);
}

/* A measured row of v_scaling, of a class. */
static int row_measured(void *arg, const struct store_cell *cells, size_t n,
                        struct error *err)
{
    const struct store_cell *basis = store_cell(cells, n, "basis");
    const struct store_cell *class = store_cell(cells, n, "class");
    bool is_guess =
        basis->kind == CELL_TEXT && strcmp(basis->s, "measured") != 0;
    bool is_program =
        class->kind == CELL_TEXT && strncmp(class->s, "program/", 8) == 0;
    return is_guess || is_program ? 0 : row_array(arg, cells, n, err);
}

static int row_latest(void *arg, const struct store_cell *cells, size_t n,
                      struct error *err)
{
    struct query *q = arg;
    (void)err;
    latest_values_take(q->latest, cells, n);
    return 0;
}

static json_t *cell_int(const struct store_cell *c)
{
    return c->kind == CELL_INT ? json_integer(c->i) : json_null();
}

static json_t *cell_real(const struct store_cell *c)
{
    if (c->kind == CELL_INT) /* a whole number, as a store may keep it */
        return json_real((double)c->i);
    return c->kind == CELL_REAL ? ctld_num(c->r) : json_null();
}

static json_t *cell_text(const struct store_cell *c)
{
    return c->kind == CELL_TEXT ? ctld_text(c->s) : json_null();
}

static json_t *cell_time(const struct store_cell *c)
{
    if (c->kind == CELL_INT) /* a whole second, as a store may keep it */
        return ctld_time((double)c->i);
    return c->kind == CELL_REAL ? ctld_time(c->r) : json_null();
}

/* The event's own words, less the spec, which stands in mgpu.job/1. */
static json_t *cell_detail(const struct store_cell *c)
{
    json_t *o = c->kind == CELL_TEXT ? json_loads(c->s, 0, NULL) : NULL;
    if (!json_is_object(o)) {
        json_decref(o);
        return json_null();
    }
    (void)json_object_del(o, "spec");
    return o;
}

static int add_row(struct query *q, json_t *o, struct error *err)
{
    if (q->n_rows++ && buf_addstr(&q->out, ",", err) < 0) {
        json_decref(o);
        return -1;
    }
    return add_json(&q->out, o, err);
}

static int row_event(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    return add_row(arg,
                   json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seq",
                             cell_int(store_cell(cells, n, "seq")), "job",
                             cell_int(store_cell(cells, n, "job")), "attempt",
                             cell_int(store_cell(cells, n, "attempt")), "event",
                             cell_text(store_cell(cells, n, "event")), "at",
                             cell_time(store_cell(cells, n, "at")), "uid",
                             cell_int(store_cell(cells, n, "uid")), "detail",
                             cell_detail(store_cell(cells, n, "detail"))),
                   err);
}

static int row_attempt(void *arg, const struct store_cell *cells, size_t n,
                       struct error *err)
{
    return add_row(
        arg,
        json_pack(
            "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, "
            "s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
            "attempt", cell_int(store_cell(cells, n, "attempt")), "state",
            cell_text(store_cell(cells, n, "state")), "native_id",
            cell_text(store_cell(cells, n, "native_id")), "place",
            cell_text(store_cell(cells, n, "place")), "reason",
            cell_text(store_cell(cells, n, "reason")), "gpus",
            cell_int(store_cell(cells, n, "gpus")), "exit_code",
            cell_int(store_cell(cells, n, "exit_code")), "signal",
            cell_int(store_cell(cells, n, "signal")), "intent",
            cell_time(store_cell(cells, n, "intent_at")), "claimed",
            cell_time(store_cell(cells, n, "claimed_at")), "running",
            cell_time(store_cell(cells, n, "running_at")), "ended",
            cell_time(store_cell(cells, n, "ended_at")), "resized_from",
            cell_int(store_cell(cells, n, "resized_from")), "checkpoint_s",
            cell_real(store_cell(cells, n, "checkpoint_s")), "allocator_s",
            cell_real(store_cell(cells, n, "allocator_s")), "start_s",
            cell_real(store_cell(cells, n, "start_s")), "cause",
            cell_text(store_cell(cells, n, "cause")), "needed_bytes",
            cell_int(store_cell(cells, n, "needed_bytes")), "available_bytes",
            cell_int(store_cell(cells, n, "available_bytes"))),
        err);
}

static int open_rows(struct query *q, struct error *err)
{
    const char *const *column = views[q->q.view].columns;
    if (buf_addf(&q->out, err, "{\"schema\":\"%s\",\"job\":%llu,", q->schema,
                 (unsigned long long)q->q.job) < 0 ||
        (q->has_removed && buf_addf(&q->out, err, "\"rows_removed\":%s,",
                                    q->rows_removed ? "true" : "false") < 0) ||
        buf_addstr(&q->out, "\"columns\":[", err) < 0)
        return -1;
    bool first = true;
    for (; *column; column++) {
        if (strcmp(*column, "job") == 0)
            continue;
        if (buf_addf(&q->out, err, "%s\"%s\"", first ? "" : ",", *column) < 0)
            return -1;
        first = false;
    }
    return buf_addstr(&q->out, "],\"rows\":[", err);
}

/* Values without an iteration come first in their attempt. */
static int run_early(struct query *q, struct error *err)
{
    struct store *s = q->c->parts.store;
    struct store_query early = q->q;
    early.last = 0;
    early.limit = LATEST_EARLY;
    if (early.attempt == 0)
        early.attempt = q->attempt;
    latest_values_early(q->latest);
    return s->metrics->query(s, &early, row_latest, q, err);
}

static void query_run(struct task *t)
{
    struct query *q = (struct query *)t;
    struct store *s = q->c->parts.store;
    q->rc = 0;
    if (q->row == row_event)
        q->rc = buf_addf(&q->out, &q->err,
                         "{\"schema\":\"%s\",\"job\":%llu,\"events\":[",
                         q->schema, (unsigned long long)q->q.job);
    else if (!q->is_job)
        q->rc = open_rows(q, &q->err);
    if (q->rc == 0)
        q->rc = s->metrics->query(s, &q->q, q->row, q, &q->err);
    if (q->rc == 0 && q->latest)
        q->rc = run_early(q, &q->err);
    if (q->rc == 0 && q->latest)
        q->rc = latest_values_each(q->latest, row_array, q, &q->err);
    if (q->rc == 0 && !q->is_job)
        q->rc = buf_addstr(&q->out, "]}", &q->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

/* Whoever knows the whole URL of a webhook may call it, so its path is masked;
 * a user name before the host may come with a password. */
static void mask_url(json_t *to)
{
    char shown[SPEC_NOTIFY_TO_CAP + 16];
    const char *text = json_string_value(to);
    const char *host = text ? strstr(text, "://") : NULL;
    if (!host)
        return;
    host += 3;
    size_t len = strcspn(host, "/?# ");
    if (memchr(host, '@', len))
        len = 0;
    else if (host[len] == '\0')
        return;
    (void)snprintf(shown, sizeof(shown), "%.*s%s********",
                   (int)(host - text + (ptrdiff_t)len), text,
                   len > 0 ? "/" : "");
    (void)json_string_set(to, shown);
}

/* The daemon keeps what a job's processes need, and shows of it no value whose
 * variable is called a secret's: replies are copied, and made into reports. */
json_t *queries_spec_json(const struct job *job)
{
    json_t *spec = job->spec ? json_loads(job->spec, 0, NULL) : NULL;
    json_t *env = json_object_get(spec, "env"), *value;
    const char *name;
    json_object_foreach(env, name, value)
    {
        if (schema_is_secret(name))
            (void)json_string_set(value, "********");
    }
    mask_url(json_object_get(json_object_get(spec, "notify"), "to"));
    return spec ? spec : json_null();
}

/* mgpu.job/1: the engine's job, its spec and directory, and its attempts. */
static json_t *job_reply(struct query *q, const struct job *job)
{
    struct buf text = BUF_INIT;
    json_t *attempts = NULL;
    if (buf_addf(&text, NULL, "[%s]", buf_str(&q->out)) == 0)
        attempts = json_loadb(buf_str(&text), text.len, 0, NULL);
    buf_clear(&text);
    json_t *o = job_json_value(q->c, job, true);
    if (!o || json_object_set_new(o, "spec", queries_spec_json(job)) < 0 ||
        json_object_set_new(o, "dir", ctld_text(job->dir)) < 0) {
        json_decref(attempts);
        json_decref(o);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:o, s:o}", "schema", "mgpu.job/1", "job", o,
                     "sweep", job_json_sweep(q->c, job), "attempts",
                     attempts ? attempts : json_array());
}

static void answer(void *arg, const struct error *why)
{
    struct query *q = arg;
    const struct job *job =
        q->is_job ? engine_job(q->c->engine, q->q.job) : NULL;
    if (job)
        job = engine_settled(q->c->engine, job);
    if (why) {
        q->rc = -1;
        q->err = *why;
    }
    if (q->rc < 0)
        http_reply_err(q->x, &q->err);
    else if (q->is_job)
        ctld_reply(q->x, 200, job ? job_reply(q, job) : NULL);
    else
        http_reply_json(q->x, 200, buf_str(&q->out), q->out.len);
    buf_clear(&q->out);
    free(q->latest);
    free(q);
}

/* The job was there when it was asked for, and may have left again. */
static void query_done(struct task *t)
{
    struct query *q = (struct query *)t;
    int under_way = 0;
    if (q->rc == 0 && q->is_job)
        under_way = archive_load(q->c, q->q.job, answer, q, &q->err);
    if (under_way < 0)
        q->rc = -1;
    if (under_way <= 0)
        answer(q, NULL);
}

static void ask(struct ctld *c, struct http_exchange *x,
                const struct query *like)
{
    struct error err = ERROR_INIT;
    struct query *q = malloc(sizeof(*q));
    int rc = q ? 0 : error_set(&err, ERR_NOMEM, "query");
    if (q) {
        *q = *like;
        q->task = (struct task){.run = query_run, .done = query_done};
        q->c = c;
        q->x = x;
        buf_init(&q->out);
        if (q->row == row_latest)
            q->latest = latest_values_create();
        rc = q->row == row_latest && !q->latest
                 ? error_set(&err, ERR_NOMEM, "query")
                 : work_queue_post(c->reader, &q->task, &err);
    }
    if (rc < 0) {
        free(q ? q->latest : NULL);
        free(q);
        http_reply_err(x, &err);
    }
}

void serve_job(void *arg, struct http_exchange *x)
{
    const struct job *job = NULL;
    if (!ctld_admit(arg, x) || !ctld_job_param(arg, x, &job))
        return;
    struct query q = {.is_job = true,
                      .row = row_attempt,
                      .q = {.view = VIEW_ATTEMPT,
                            .job = job->id,
                            .rank = -1,
                            .after = INT64_MIN}};
    ask(arg, x, &q);
}

static void rows(struct ctld *c, struct http_exchange *x, enum store_view view,
                 const char *schema)
{
    const struct job *job = NULL;
    struct query q = {.schema = schema, .row = row_array, .q = {.view = view}};
    int64_t attempt = 0, rank = 0, last = 0, guess = 0, latest = 0;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job) ||
        !ctld_query_int(x, "attempt", 1, INT32_MAX, 0, &attempt) ||
        !ctld_query_int(x, "rank", 0, INT32_MAX, -1, &rank) ||
        !ctld_query_int(x, "after", INT64_MIN, INT64_MAX, INT64_MIN,
                        &q.q.after) ||
        !ctld_query_int(x, "last", 0, 1, 0, &last) ||
        !ctld_query_int(x, "guess", 0, 1, 0, &guess) ||
        !ctld_query_int(x, "latest", 0, 1, 0, &latest) ||
        !ctld_query_int(x, "limit", 1, ROWS_MAX, ROWS_MAX, &q.q.limit))
        return;
    q.q.job = job->id;
    q.q.attempt = (int32_t)attempt;
    q.q.rank = (int32_t)rank;
    q.q.last = (int32_t)last;
    if (view == VIEW_EVENT)
        q.row = row_event;
    if (view == VIEW_SCALING && !guess)
        q.row = row_measured;
    if (view == VIEW_METRIC && latest) {
        q.row = row_latest;
        q.attempt = job->attempt;
        q.q.last = 1;
        q.q.limit = LATEST_ROWS;
    }
    q.has_removed = view != VIEW_SCALING; /* which is of others' rows, too */
    q.rows_removed = metrics_retention_has_removed(c, job);
    ask(c, x, &q);
}

void serve_events(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_EVENT, "mgpu.events/1");
}

void serve_iterations(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_ITERATION, "mgpu.iterations/1");
}

void serve_epochs(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_EPOCH, "mgpu.epochs/1");
}

void serve_values(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_METRIC, "mgpu.values/1");
}

void serve_profile(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_PROFILE, "mgpu.profile/1");
}

void serve_scaling(void *arg, struct http_exchange *x)
{
    rows(arg, x, VIEW_SCALING, "mgpu.scaling/1");
}
