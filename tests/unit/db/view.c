/* view.c - the table of views says what the SQL says, and query() reads it. */
#include "db/view.h"

#include <math.h>
#include <sqlite3.h>

#include "jobs/base/buf.h"
#include "tests/tap.h"
#include "tests/unit/db/tmp.h"

static sqlite3 *reader(struct tmp *t, enum store_view v)
{
    sqlite3 *h = NULL;
    const char *name = v <= VIEW_USAGE ? "state.db" : "metrics.db";

    if (sqlite3_open_v2(tmp_path(t, name), &h, SQLITE_OPEN_READONLY, NULL) !=
        SQLITE_OK)
        exit(1);
    return h;
}

static void fill(struct store *s)
{
    struct error err = ERROR_INIT;
    struct store_event e = {.job = 1, .ev = EV_SUBMIT, .at_s = 1, .uid = -1};
    struct store_job j = {.id = 1, .name = "n", .start_s = NAN};
    struct store_attempt a = {
        .job = 1, .attempt = 1, .class = "c", .gpus = 1, .nodes = 1};
    struct store_batch b = {.events = &e,
                            .n_events = 1,
                            .jobs = &j,
                            .n_jobs = 1,
                            .attempts = &a,
                            .n_attempts = 1};
    struct metric_row rows[7] = {
        {.kind = METRIC_EPOCH, .epoch = {.epoch = 1, .seconds = 2}},
        {.kind = METRIC_VALUE,
         .value = {.iteration = -1, .name = "f1", .value = 0.5}},
        {.kind = METRIC_VALUE,
         .value = {.iteration = 3, .name = "f1", .value = 0.75}}};

    for (int i = 3; i < 7; i++)
        rows[i] = (struct metric_row){
            .kind = METRIC_ITERATION,
            .iteration = {.iteration = i, .t_iter = 0.5, .samples = 8}};
    ok(s->ops->append(s, &b, &err) == 0 &&
           s->metrics->rows(s, 1, 1, rows, 7, NULL, &err) == 0,
       "stores one of each");
    const struct store_guess g = {2, 1, "assumed", 1, 1, 2, 0.5};
    ok(s->metrics->guesses(s, "c", NULL, &g, 1, &err) == 0 &&
           s->metrics->guesses(s, "left", "h100", &g, 1, &err) == 0,
       "and guesses about two classes");
}

/* Each cell as "name=value ". */
static int add_row(void *arg, const struct store_cell *c, size_t n,
                   struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        int rc = buf_addf(arg, err, "%s=", c[i].name);
        if (rc == 0 && c[i].kind == CELL_INT)
            rc = buf_addf(arg, err, "%lld ", (long long)c[i].i);
        else if (rc == 0 && c[i].kind == CELL_REAL)
            rc = buf_addf(arg, err, "%.15g ", c[i].r);
        else if (rc == 0)
            rc = buf_addf(arg, err, "%s ",
                          c[i].kind == CELL_TEXT ? c[i].s : "null");
        if (rc < 0)
            return -1;
    }
    return buf_addstr(arg, "\n", err);
}

static void add_sql(sqlite3_stmt *st, struct buf *out)
{
    while (sqlite3_step(st) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(st); i++) {
            const char *name = sqlite3_column_name(st, i);
            int rc;
            if (sqlite3_column_type(st, i) == SQLITE_FLOAT)
                rc = buf_addf(out, NULL, "%s=%.15g ", name,
                              sqlite3_column_double(st, i));
            else if (sqlite3_column_type(st, i) == SQLITE_NULL)
                rc = buf_addf(out, NULL, "%s=null ", name);
            else
                rc = buf_addf(out, NULL, "%s=%s ", name,
                              (const char *)sqlite3_column_text(st, i));
            if (rc < 0)
                exit(1);
        }
        if (buf_addstr(out, "\n", NULL) < 0)
            exit(1);
    }
}

static void test_view(struct tmp *t, struct store *s, enum store_view v)
{
    struct error err = ERROR_INIT;
    struct store_query q = {.view = v, .rank = -1};
    struct buf got = BUF_INIT, want = BUF_INIT;
    sqlite3 *h = reader(t, v);
    sqlite3_stmt *st = NULL;
    char sql[64];
    int n = 0;

    (void)snprintf(sql, sizeof(sql), "SELECT * FROM %s", views[v].name);
    if (!ok(sqlite3_prepare_v2(h, sql, -1, &st, NULL) == SQLITE_OK,
            "%s is there", views[v].name))
        exit(1);
    while (n < VIEW_COLUMNS_MAX && views[v].columns[n])
        n++;
    is_int(sqlite3_column_count(st), n, "has as many columns as we say");
    for (int i = 0; i < n; i++)
        is_str(sqlite3_column_name(st, i), views[v].columns[i], "column");
    add_sql(st, &want);
    ok(s->metrics->query(s, &q, add_row, &got, &err) == 0, "query() reads it");
    is_str(buf_str(&got), buf_str(&want), "and gives what the view gives");
    ok(v == VIEW_PROFILE || got.len > 0, "which is something");
    buf_clear(&got);
    buf_clear(&want);
    sqlite3_finalize(st);
    sqlite3_close(h);
}

/* Of classes without a run; the view has none of them anyway. */
static void test_purge(struct tmp *t, struct store *s)
{
    struct error err = ERROR_INIT;
    struct store_purge p = {.before_s = 0, .max = 100};
    sqlite3 *h = reader(t, VIEW_SCALING);
    sqlite3_stmt *st = NULL;

    while (!p.is_over && s->metrics->purge_rows(s, &p, &err) == 0)
        ;
    ok(p.is_over, "a purge");
    if (ok(sqlite3_prepare_v2(h, "SELECT group_concat(class) FROM guess", -1,
                              &st, NULL) == SQLITE_OK &&
               sqlite3_step(st) == SQLITE_ROW,
           "guesses"))
        is_str((const char *)sqlite3_column_text(st, 0), "c",
               "of the class that has a run are left");
    sqlite3_finalize(st);
    sqlite3_close(h);
}

/* A year of removed jobs is not read for the use of a week. */
static void test_usage_index(struct tmp *t)
{
    struct buf plan = BUF_INIT;
    sqlite3 *h = reader(t, VIEW_USAGE);
    sqlite3_stmt *st = NULL;

    if (sqlite3_prepare_v2(h,
                           "EXPLAIN QUERY PLAN SELECT * FROM v_usage AS t"
                           " WHERE t.ended_at > 9 OR t.ended_at IS NULL"
                           " ORDER BY t.job, t.attempt",
                           -1, &st, NULL) != SQLITE_OK)
        exit(1);
    add_sql(st, &plan);
    if (!ok(strstr(buf_str(&plan), "usage_by_end (ended_at>?)") != NULL,
            "v_usage after a time goes by an index"))
        tap_diag("%s", buf_str(&plan));
    buf_clear(&plan);
    sqlite3_finalize(st);
    sqlite3_close(h);
}

int main(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    tmp_begin(&t);
    if (!ok(store_sqlite_open(t.dir, &s, &err) == 0, "opens"))
        return tap_done();
    fill(s);
    for (int v = 0; v < VIEW_N; v++)
        test_view(&t, s, (enum store_view)v);
    test_purge(&t, s);
    test_usage_index(&t);
    s->ops->destroy(s);
    tmp_end(&t);
    return tap_done();
}
