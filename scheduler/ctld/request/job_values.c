/* job_values.c - see job_values.h. */
#include "scheduler/ctld/request/job_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/text/text.h"
#include "jobs/wire/metric_rows.h"
#include "scheduler/ctld/request/latest_values.h"

struct wanted {
    uint64_t job;
    int32_t attempt;
};

struct job_values {
    struct task task;
    char names[JOB_VALUES_NAMES][METRIC_NAME_CAP];
    size_t n_names; /* 0: all */
    struct wanted *jobs;
    size_t n, cap;
    /* While they are read: */
    struct ctld *c;
    struct http_exchange *x;
    size_t next; /* the first job that was not read */
    void (*done)(void *arg, const struct buf *text, const struct error *why);
    void *arg;
    struct latest_values *latest;
    int64_t rows;        /* of all jobs so far */
    int64_t rows_of_job; /* of the last query */
    struct buf text;
    bool has_some; /* of the job at hand */
    int rc;
    struct error err;
};

/* ---- what is asked for --------------------------------------------------- */

static int add_names(struct job_values *v, const char *names, struct error *err)
{
    for (const char *p = names;; p++) {
        const size_t n = strcspn(p, ",");
        if (n == 0 || n >= METRIC_NAME_CAP)
            return error_set(err, ERR_INVAL,
                             "values: a name has 1 to %d bytes, or * is all",
                             METRIC_NAME_CAP - 1);
        if (v->n_names == JOB_VALUES_NAMES)
            return error_set(err, ERR_INVAL, "values: more than %d names",
                             JOB_VALUES_NAMES);
        memcpy(v->names[v->n_names], p, n);
        v->names[v->n_names++][n] = '\0';
        p += n;
        if (*p == '\0')
            return 0;
    }
}

int job_values_create(const char *names, struct job_values **ret,
                      struct error *err)
{
    struct job_values *v = calloc(1, sizeof(*v));
    if (!v)
        return error_set(err, ERR_NOMEM, "values of jobs");
    v->latest = latest_values_create();
    int rc = v->latest ? 0 : error_set(err, ERR_NOMEM, "values of jobs");
    if (rc == 0 && strcmp(names, "*") != 0)
        rc = add_names(v, names, err);
    if (rc == 0)
        *ret = v;
    else
        job_values_destroy(v);
    return rc;
}

void job_values_destroy(struct job_values *v)
{
    if (!v)
        return;
    free(v->latest);
    free(v->jobs);
    buf_clear(&v->text);
    free(v);
}

int job_values_add(struct job_values *v, uint64_t job, int32_t attempt,
                   struct error *err)
{
    if (attempt < 1 || v->n == JOB_VALUES_JOBS)
        return 0;
    if (v->n == v->cap) {
        const size_t cap = v->cap ? 2 * v->cap : 64;
        struct wanted *jobs = realloc(v->jobs, cap * sizeof(*jobs));
        if (!jobs)
            return error_set(err, ERR_NOMEM, "values of jobs");
        v->jobs = jobs;
        v->cap = cap;
    }
    v->jobs[v->n++] = (struct wanted){.job = job, .attempt = attempt};
    return 0;
}

/* ---- on the reader's thread ---------------------------------------------- */

static int take(void *arg, const struct store_cell *cells, size_t n,
                struct error *err)
{
    struct job_values *v = arg;
    (void)err;
    v->rows_of_job++;
    latest_values_take(v->latest, cells, n);
    return 0;
}

static int look(struct job_values *v, const struct store_query *q,
                struct error *err)
{
    struct store *s = v->c->parts.store;
    v->rows_of_job = 0;
    int rc = s->metrics->query(s, q, take, v, err);
    v->rows += v->rows_of_job;
    return rc;
}

static bool has_all(const struct job_values *v)
{
    bool has = v->n_names > 0;
    for (size_t i = 0; has && i < v->n_names; i++)
        has = latest_values_has(v->latest, v->names[i]);
    return has;
}

/* The last rows; then, for what they lack, more of them, and the first ones of
 * the attempt, which have values without an iteration. */
static int look_for(struct job_values *v, const struct wanted *w,
                    struct error *err)
{
    struct store_query q = {.view = VIEW_METRIC,
                            .job = w->job,
                            .rank = -1,
                            .after = INT64_MIN,
                            .limit = JOB_VALUES_FEW,
                            .last = 1};
    latest_values_reset(v->latest);
    if (look(v, &q, err) < 0)
        return -1;
    /* Fewer rows than the limit are all that there are. */
    if (has_all(v) || v->rows_of_job < JOB_VALUES_FEW ||
        v->rows >= JOB_VALUES_ROWS)
        return 0;
    q.limit = LATEST_ROWS;
    latest_values_reset(v->latest);
    if (look(v, &q, err) < 0)
        return -1;
    if (has_all(v) || v->rows_of_job < LATEST_ROWS)
        return 0;
    q.last = 0;
    q.limit = LATEST_EARLY;
    q.attempt = w->attempt;
    latest_values_early(v->latest);
    return look(v, &q, err);
}

static bool is_wanted(const struct job_values *v, const char *name)
{
    for (size_t i = 0; i < v->n_names; i++)
        if (strcmp(v->names[i], name) == 0)
            return true;
    return v->n_names == 0;
}

/* Infinity as in JavaScript: the number 1e999 is refused by many readers. */
static int add_number(struct buf *out, const struct store_cell *c,
                      struct error *err)
{
    if (c->kind == CELL_INT)
        return buf_addf(out, err, "%lld", (long long)c->i);
    if (c->kind != CELL_REAL || isnan(c->r))
        return buf_addstr(out, "null", err);
    if (isinf(c->r))
        return buf_addstr(out, c->r > 0 ? "\"Infinity\"" : "\"-Infinity\"",
                          err);
    return buf_addf(out, err, "%.17g", c->r);
}

static int add_value(void *arg, const struct store_cell *cells, size_t n,
                     struct error *err)
{
    struct job_values *v = arg;
    const char *name = store_cell_text(cells, n, "name");
    if (!name || !is_wanted(v, name))
        return 0;
    if (v->has_some && buf_addstr(&v->text, ",", err) < 0)
        return -1;
    v->has_some = true;
    if (text_add_json(&v->text, name, err) < 0 ||
        buf_addstr(&v->text, ":", err) < 0)
        return -1;
    return add_number(&v->text, store_cell(cells, n, "value"), err);
}

static int add_job(struct job_values *v, const struct wanted *w,
                   struct error *err)
{
    v->has_some = false;
    if (look_for(v, w, err) < 0 ||
        buf_addf(&v->text, err, "%s\"%llu\":{", v->text.len > 1 ? "," : "",
                 (unsigned long long)w->job) < 0 ||
        latest_values_each(v->latest, add_value, v, err) < 0)
        return -1;
    return buf_addstr(&v->text, "}", err);
}

/* One portion of the jobs. Between two of them other queries have their turn.
 */
static void values_run(struct task *t)
{
    struct job_values *v = (struct job_values *)t;
    const int64_t most = v->rows + JOB_VALUES_PORTION;
    v->rc = v->next == 0 ? buf_addstr(&v->text, "{", &v->err) : 0;
    while (v->rc == 0 && v->next < v->n && v->rows < most)
        v->rc = add_job(v, &v->jobs[v->next++], &v->err);
    if (v->rc == 0 && v->next == v->n)
        v->rc = buf_addstr(&v->text, "}", &v->err);
}

/* ---- on the loop --------------------------------------------------------- */

/* A reader that stops would take the next portion and never run it. */
static int go_on(struct job_values *v, struct error *err)
{
    if (v->c->stopping || http_is_gone(v->x))
        return error_set(err, ERR_UNAVAIL, "the daemon is stopping");
    return work_queue_post(v->c->reader, &v->task, err);
}

static void values_done(struct task *t)
{
    struct job_values *v = (struct job_values *)t;
    if (v->rc == 0 && v->next < v->n) {
        if (go_on(v, &v->err) == 0)
            return; /* it is the reader's again */
        v->rc = -1;
    }
    v->done(v->arg, &v->text, v->rc < 0 ? &v->err : NULL);
}

int job_values_read(struct job_values *v, struct ctld *c,
                    struct http_exchange *x,
                    void (*done)(void *arg, const struct buf *text,
                                 const struct error *why),
                    void *arg, struct error *err)
{
    v->task = (struct task){.run = values_run, .done = values_done};
    v->c = c;
    v->x = x;
    v->next = 0;
    v->done = done;
    v->arg = arg;
    return work_queue_post(c->reader, &v->task, err);
}
