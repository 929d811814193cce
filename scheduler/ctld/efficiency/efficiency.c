/* efficiency.c - how well a job uses what it has, and what its user may change:
 * GET /v1/jobs/:id/efficiency.
 *
 * The rows are read on the reader's thread. The figures and the sentences are
 * those of mgpu-stat --eff (jobs/advice).
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "db/view.h"
#include "jobs/advice/advice.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_json.h"
#include "scheduler/ctld/request/archive_load.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"

/* Of mgpu-stat --eff over several jobs, too. The worker's final report is among
 * the last events of a job. */
enum { LAST_ROWS = 2000, LAST_EVENTS = 16, FIRST_VALUES = 16 };

enum { ITERATIONS, EVENTS, PROFILE, VALUES, FIRST, SCALING, PARTS };

/* What is read, as jobs/advice names it. */
static const struct part {
    const char *member;
    int64_t limit;
    enum store_view view;
    bool is_first; /* of the last attempt, from its beginning */
} parts[PARTS] = {
    [ITERATIONS] = {"iterations", LAST_ROWS, VIEW_ITERATION, false},
    [EVENTS] = {"events", LAST_EVENTS, VIEW_EVENT, false},
    [PROFILE] = {"profile", LAST_ROWS, VIEW_PROFILE, false},
    [VALUES] = {"values", LAST_ROWS, VIEW_METRIC, false},
    [FIRST] = {"first_values", FIRST_VALUES, VIEW_METRIC, true},
    [SCALING] = {"scaling", LAST_ROWS, VIEW_SCALING, false},
};

struct efficiency {
    struct task task;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job;
    int32_t attempt; /* the newest one */
    json_t *rows[PARTS];
    int rc;
    struct error err;
};

/* ---- on the reader's thread -----------------------------------------------
 */

static json_t *cell_json(const struct store_cell *c)
{
    switch (c->kind) {
    case CELL_INT:
        return json_integer(c->i);
    case CELL_REAL:
        return isinf(c->r) ? json_string(c->r > 0 ? "Infinity" : "-Infinity")
                           : ctld_num(c->r);
    case CELL_TEXT:
        return ctld_text(c->s);
    default:
        return json_null();
    }
}

static int add(json_t *list, json_t *row, struct error *err)
{
    return json_array_append_new(list, row) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "efficiency");
}

static int take_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    json_t *row = json_array();
    int bad = row ? 0 : -1;
    for (size_t i = 0; !bad && i < n; i++)
        bad = json_array_append_new(row, cell_json(&cells[i]));
    if (!bad)
        return add(arg, row, err);
    json_decref(row);
    return error_set(err, ERR_NOMEM, "efficiency");
}

static int take_event(void *arg, const struct store_cell *cells, size_t n,
                      struct error *err)
{
    const char *detail = store_cell_text(cells, n, "detail");
    const char *event = store_cell_text(cells, n, "event");
    json_t *o = detail ? json_loads(detail, 0, NULL) : NULL;
    return add(arg,
               json_pack("{s:o, s:s?, s:o}", "attempt",
                         cell_json(store_cell(cells, n, "attempt")), "event",
                         event, "detail", o ? o : json_null()),
               err);
}

/* Programs differ, though they have a class in common. */
static int take_measured(void *arg, const struct store_cell *cells, size_t n,
                         struct error *err)
{
    const char *basis = store_cell_text(cells, n, "basis");
    const char *class = store_cell_text(cells, n, "class");
    bool is_guess = basis && strcmp(basis, "measured") != 0;
    bool is_program = class && strncmp(class, "program/", 8) == 0;
    return is_guess || is_program ? 0 : take_row(arg, cells, n, err);
}

static int read_part(struct efficiency *e, int i)
{
    const struct part *p = &parts[i];
    struct store *s = e->c->parts.store;
    const struct store_query q = {
        .view = p->view,
        .job = e->job,
        .attempt = p->is_first ? e->attempt : 0,
        .rank = p->is_first ? 0 : -1,
        .after = INT64_MIN,
        .limit = p->limit,
        .last = !p->is_first,
    };
    const char *const *column = views[p->view].columns;
    json_t *columns = json_array(), *rows = json_array();
    int bad = columns && rows ? 0 : -1;
    for (; !bad && *column; column++)
        bad = json_array_append_new(columns, json_string(*column));
    if (bad) {
        json_decref(columns);
        json_decref(rows);
        return error_set(&e->err, ERR_NOMEM, "efficiency");
    }
    e->rows[i] =
        i == EVENTS ? json_incref(rows)
                    : json_pack("{s:O, s:O}", "columns", columns, "rows", rows);
    int rc = e->rows[i] ? s->metrics->query(s, &q,
                                            i == EVENTS    ? take_event
                                            : i == SCALING ? take_measured
                                                           : take_row,
                                            rows, &e->err)
                        : error_set(&e->err, ERR_NOMEM, "efficiency");
    json_decref(columns);
    json_decref(rows);
    return rc;
}

static void efficiency_run(struct task *t)
{
    struct efficiency *e = (struct efficiency *)t;
    e->rc = 0;
    for (int i = 0; e->rc == 0 && i < PARTS; i++)
        if (!parts[i].is_first || e->attempt > 0)
            e->rc = read_part(e, i);
}

/* ---- on the loop ----------------------------------------------------------
 */

/* mgpu.job/1, with the rows that jobs/advice looks for. NULL: no memory */
static json_t *job_reply(const struct efficiency *e, const struct job *job)
{
    json_t *o = job_json_value(e->c, job, true);
    json_t *spec = job->spec ? json_loads(job->spec, 0, NULL) : NULL;
    json_t *reply =
        o && json_object_set_new(o, "spec", spec ? spec : json_null()) == 0
            ? json_pack("{s:O}", "job", o)
            : NULL;
    json_decref(o);
    for (int i = 0; reply && i < PARTS; i++)
        if (e->rows[i] &&
            json_object_set(reply, parts[i].member, e->rows[i]) < 0) {
            json_decref(reply);
            return NULL;
        }
    return reply;
}

static void reply_advice(struct efficiency *e, const struct job *job)
{
    json_t *row = NULL, *reply = job_reply(e, job);
    int rc = reply ? advice_row(reply, e->rows[ITERATIONS], e->rows[SCALING],
                                &row, &e->err)
                   : error_set(&e->err, ERR_NOMEM, "efficiency");
    json_decref(reply);
    if (rc < 0)
        http_reply_err(e->x, &e->err);
    else
        ctld_reply(
            e->x, 200,
            json_pack("{s:s, s:[o]}", "schema", "mgpu.eff/1", "jobs", row));
}

/* The job was there when it was asked for, and may have left again. */
static void answer(void *arg, const struct error *why)
{
    struct efficiency *e = arg;
    const struct job *job = engine_job(e->c->engine, e->job);
    if (why)
        e->err = *why;
    else if (e->rc == 0 && !job)
        e->rc = error_set(&e->err, ERR_NOTFOUND, "no job %llu",
                          (unsigned long long)e->job);
    if (why || e->rc < 0)
        http_reply_err(e->x, &e->err);
    else
        reply_advice(e, engine_settled(e->c->engine, job));
    for (int i = 0; i < PARTS; i++)
        json_decref(e->rows[i]);
    free(e);
}

static void efficiency_done(struct task *t)
{
    struct efficiency *e = (struct efficiency *)t;
    int under_way =
        e->rc == 0 ? archive_load(e->c, e->job, answer, e, &e->err) : 0;
    if (under_way < 0)
        e->rc = -1;
    if (under_way <= 0)
        answer(e, NULL);
}

void serve_efficiency(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    const struct job *job = NULL;
    struct error err = ERROR_INIT;
    if (!ctld_admit(c, x) || !ctld_job_param(c, x, &job))
        return;
    struct efficiency *e = calloc(1, sizeof(*e));
    if (!e) {
        (void)error_set(&err, ERR_NOMEM, "efficiency");
        http_reply_err(x, &err);
        return;
    }
    *e = (struct efficiency){
        .task = {.run = efficiency_run, .done = efficiency_done},
        .c = c,
        .x = x,
        .job = job->id,
        .attempt = job->attempt,
    };
    if (work_queue_post(c->reader, &e->task, &err) < 0) {
        free(e);
        http_reply_err(x, &err);
    }
}
