/* sql_query.c - POST /v1/admin/sql: a SELECT that an administrator wrote, over
 * the views of mgpu-db(5), by a thread of its own: it may take as long as the
 * caller allows, and neither lists nor backups wait for it. One at a time; the
 * store sees to it that nothing is changed and that it ends. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "jobs/text/text.h"
#include "scheduler/ctld/ctld_internal.h"

enum { QUEUED_MAX = 4, ROWS_USUAL = 10000, ROWS_MAX = 100000 };
static const double TIME_USUAL_S = 10, TIME_MAX_S = 300;
static const size_t REPLY_MAX = 64u << 20;

struct select {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    char *text; /* owned */
    int64_t rows_max, n_rows, uid;
    double time_max_s, took_s;
    struct buf out;
    bool is_cut;
    int rc;
    struct error err;
};

static void select_free(struct select *s)
{
    buf_clear(&s->out);
    free(s->text);
    free(s);
}

/* ---- on its thread --------------------------------------------------------
 */

static int add_cell(struct buf *out, const struct store_cell *c,
                    struct error *err)
{
    if (c->kind == CELL_INT)
        return buf_addf(out, err, "%" PRId64, c->i);
    if (c->kind == CELL_REAL && isfinite(c->r))
        return buf_addf(out, err, "%.17g", c->r);
    return c->kind == CELL_TEXT ? text_add_json(out, c->s, err)
                                : buf_addstr(out, "null", err);
}

static int add_row(void *arg, const struct store_cell *cells, size_t n,
                   bool is_head, struct error *err)
{
    struct select *s = arg;
    struct buf *out = &s->out;
    const char *before = is_head ? "\"columns\":[" : s->n_rows ? ",[" : "[";
    int rc = buf_addstr(out, before, err);
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (i > 0)
            rc = buf_addstr(out, ",", err);
        if (rc == 0)
            rc = is_head ? text_add_json(out, cells[i].name, err)
                         : add_cell(out, &cells[i], err);
    }
    if (rc == 0)
        rc = buf_addstr(out, is_head ? "],\"rows\":[" : "]", err);
    s->n_rows += !is_head;
    return rc < 0 ? -1 : out->len < REPLY_MAX;
}

static int read_all(struct select *s, struct error *err)
{
    const struct ctld_parts *parts = &s->c->parts;
    const struct store_select q = {.text = s->text,
                                   .rows_max = s->rows_max,
                                   .time_max_s = s->time_max_s,
                                   .stop = &s->c->closing};
    if (buf_addstr(&s->out, "{\"schema\":\"mgpu.sql/1\",", err) < 0 ||
        parts->select(parts->conf->state_dir, &q, add_row, s, &s->is_cut, err) <
            0)
        return -1;
    return buf_addf(&s->out, err, "],\"is_cut\":%s}",
                    s->is_cut ? "true" : "false");
}

static void select_run(struct task *t)
{
    struct select *s = (struct select *)t;
    double from_s = clock_real.now_s(&clock_real);
    s->rc = read_all(s, &s->err);
    s->took_s = clock_real.now_s(&clock_real) - from_s;
}

/* ---- on the loop ----------------------------------------------------------
 */

static void select_done(struct task *t)
{
    struct select *s = (struct select *)t;
    log_info("admin", "sql uid=%lld rows=%lld took_s=%.3f why=\"%s\"",
             (long long)s->uid, (long long)s->n_rows, s->took_s,
             s->rc < 0 ? s->err.msg : "");
    if (s->rc < 0)
        http_reply_err(s->x, &s->err);
    else
        http_reply_json(s->x, 200, buf_str(&s->out), s->out.len);
    select_free(s);
}

static int read_body(struct select *s, const json_t *body, struct error *err)
{
    const json_t *rows = json_object_get(body, "limit");
    const json_t *time = json_object_get(body, "timeout_s");
    const char *text = json_string_value(json_object_get(body, "sql"));
    if (!text)
        return error_set(err, ERR_INVAL, "sql: expected a string");
    if (rows && (!json_is_integer(rows) || json_integer_value(rows) < 1 ||
                 json_integer_value(rows) > ROWS_MAX))
        return error_set(err, ERR_INVAL, "limit: expected 1..%d",
                         (int)ROWS_MAX);
    if (time && !(json_is_number(time) && json_number_value(time) > 0 &&
                  json_number_value(time) <= TIME_MAX_S))
        return error_set(err, ERR_INVAL,
                         "timeout_s: expected up to %.0f seconds", TIME_MAX_S);
    s->rows_max = rows ? json_integer_value(rows) : ROWS_USUAL;
    s->time_max_s = time ? json_number_value(time) : TIME_USUAL_S;
    s->text = strdup(text);
    return s->text ? 0 : error_set(err, ERR_NOMEM, "sql");
}

static int start(struct ctld *c, struct http_exchange *x, const json_t *body,
                 struct error *err)
{
    if (!c->parts.select)
        return error_set(err, ERR_CONFIG, "this store knows no SQL");
    if (!c->selects &&
        thread_create(c->loop, "sql", QUEUED_MAX, &c->selects, err) < 0)
        return -1;
    struct select *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, ERR_NOMEM, "sql");
    s->task = (struct task){.run = select_run, .done = select_done};
    s->c = c;
    s->x = x;
    s->uid = http_uid(x);
    s->err = (struct error)ERROR_INIT;
    buf_init(&s->out);
    if (read_body(s, body, err) < 0 ||
        thread_post(c->selects, &s->task, err) < 0) {
        select_free(s);
        return -1;
    }
    return 0;
}

void serve_sql(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err = ERROR_INIT;
    json_t *body = ctld_admit_admin(c, x) ? ctld_body(x) : NULL;
    if (!body)
        return;
    int rc = start(c, x, body, &err);
    json_decref(body);
    if (rc < 0)
        http_reply_err(x, &err);
}
