/* query_sqlite.c - read the rows of the views.
 *
 * A query is built from the constant words below and bound parameters. It reads
 * the tables behind the views, not the views: their order is that of a primary
 * key, so the last hundred rows of a long curve cost a hundred rows. */
#include <string.h>

#include "db/sqlite/store_sqlite.h"
#include "db/view.h"
#include "jobs/base/buf.h"

static const struct source {
    const char *table;
    const char *key;      /* the column compared with `after` */
    const char *order[5]; /* the primary key */
} sources[VIEW_N] = {
    [VIEW_JOB] = {"job", "job", {"job"}},
    [VIEW_ATTEMPT] = {"attempt", "attempt", {"job", "attempt"}},
    [VIEW_EVENT] = {"event", "seq", {"seq"}},
    [VIEW_USAGE] = {"v_usage", "ended_at", {"job", "attempt"}},
    [VIEW_ITERATION] = {"iteration",
                        "iteration",
                        {"job", "attempt", "iteration", "rank"}},
    [VIEW_EPOCH] = {"epoch", "epoch", {"job", "attempt", "epoch"}},
    [VIEW_METRIC] = {"metric",
                     "iteration",
                     {"job", "attempt", "iteration", "rank", "name"}},
    [VIEW_PROFILE] = {"profile",
                      "epoch",
                      {"job", "attempt", "epoch", "rank", "metric"}},
    [VIEW_SCALING] = {"v_scaling",
                      "gpus",
                      {"class", "gpus", "nodes", "gpu_type"}},
};

static int add_columns(struct buf *sql, const struct store_query *q,
                       struct error *err)
{
    const char *const *c = views[q->view].columns;
    const char *before = "SELECT ";

    for (int i = 0; i < VIEW_COLUMNS_MAX && c[i]; i++) {
        /* As in v_metric: -1 stands for NULL in the primary key. */
        bool none = q->view == VIEW_METRIC && strcmp(c[i], "iteration") == 0;
        if (q->columns != 0 && !(q->columns >> i & 1))
            continue;
        if (buf_addf(sql, err, none ? "%snullif(t.%s, -1) AS %s" : "%st.%s",
                     before, c[i], c[i]) < 0)
            return -1;
        before = ", ";
    }
    return 0;
}

static int add_order(struct buf *sql, const struct source *src, bool backwards,
                     struct error *err)
{
    for (int i = 0; i < 5 && src->order[i]; i++)
        if (buf_addf(sql, err, "%st.%s%s", i ? ", " : " ORDER BY ",
                     src->order[i], backwards ? " DESC" : "") < 0)
            return -1;
    return 0;
}

/* Parameters: 1 job, 2 attempt, 3 rank, 4 after, 5 limit; the SQL has only
 * those that the query sets. */
static int build(struct buf *sql, const struct store_query *q,
                 struct error *err)
{
    const struct view *v = &views[q->view];
    const struct source *src = &sources[q->view];
    bool backwards = q->last && q->limit > 0;

    if (add_columns(sql, q, err) < 0 ||
        buf_addf(sql, err,
                 backwards ? " FROM (SELECT * FROM %s AS t" : " FROM %s AS t",
                 src->table) < 0 ||
        buf_addstr(sql, " WHERE true", err) < 0)
        return -1;
    if ((v->of_jobs && q->job != 0 &&
         buf_addstr(sql, " AND t.job = ?1", err) < 0) ||
        (v->of_attempts && q->attempt != 0 &&
         buf_addstr(sql, " AND t.attempt = ?2", err) < 0) ||
        (v->of_ranks && q->rank != -1 &&
         buf_addstr(sql, " AND t.rank = ?3", err) < 0) ||
        (q->view == VIEW_SCALING && q->job != 0 &&
         buf_addstr(sql,
                    " AND t.class IN (SELECT class FROM run WHERE job = ?1"
                    " UNION ALL SELECT program FROM run WHERE job = ?1)",
                    err) < 0) ||
        (q->after != 0 &&
         buf_addf(sql, err, " AND (t.%s > ?4%s)", src->key,
                  q->view == VIEW_USAGE ? " OR t.ended_at IS NULL" : "") < 0))
        return -1;
    if (add_order(sql, src, backwards, err) < 0 ||
        (q->limit > 0 && buf_addstr(sql, " LIMIT ?5", err) < 0))
        return -1;
    if (!backwards)
        return 0;
    return buf_addstr(sql, ") AS t", err) < 0 ? -1
                                              : add_order(sql, src, false, err);
}

/* SQLite allows to bind a parameter that the SQL lacks, if it is not above the
 * highest one that the SQL has. */
static int bind(sqlite3_stmt *st, const struct store_query *q)
{
    const int64_t values[] = {(int64_t)q->job, q->attempt, q->rank, q->after,
                              q->limit};
    int n = sqlite3_bind_parameter_count(st);

    for (int i = 0; i < n; i++) {
        int rc = sqlite3_bind_int64(st, i + 1, values[i]);
        if (rc != SQLITE_OK)
            return rc;
    }
    return SQLITE_OK;
}

/* Column i of st's current row; its text is borrowed until the next step. */
static struct store_cell query_cell(sqlite3_stmt *st, int i, const char *name)
{
    struct store_cell c = {.name = name};

    switch (sqlite3_column_type(st, i)) {
    case SQLITE_NULL:
        break;
    case SQLITE_INTEGER:
        c.kind = CELL_INT;
        c.i = sqlite3_column_int64(st, i);
        break;
    case SQLITE_FLOAT:
        c.kind = CELL_REAL;
        c.r = sqlite3_column_double(st, i);
        break;
    default: /* STRICT tables hold no blobs, but a SELECT may make one */
        c.s = (const char *)sqlite3_column_text(st, i);
        c.kind = c.s ? CELL_TEXT : CELL_NULL;
    }
    return c;
}

static int run(const struct db *d, sqlite3_stmt *st,
               int (*row)(void *arg, const struct store_cell *cells, size_t n,
                          struct error *err),
               void *arg, struct error *err)
{
    struct store_cell cells[VIEW_COLUMNS_MAX];
    const char *names[VIEW_COLUMNS_MAX] = {NULL};
    int n = sqlite3_column_count(st), rc;

    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        /* The first step may have prepared st again; names stay from then. */
        for (int i = 0; i < n && !names[i]; i++) {
            names[i] = sqlite3_column_name(st, i);
            names[i] = names[i] ? names[i] : "";
        }
        for (int i = 0; i < n; i++)
            cells[i] = query_cell(st, i, names[i]);
        if (row(arg, cells, (size_t)n, err) < 0)
            return -1;
    }
    return rc == SQLITE_DONE ? 0 : db_fail(d, "query", err);
}

static int query_locked(const struct db *d, const char *sql,
                        const struct store_query *q,
                        int (*row)(void *arg, const struct store_cell *cells,
                                   size_t n, struct error *err),
                        void *arg, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;

    if (sqlite3_prepare_v2(d->h, sql, -1, &st, NULL) != SQLITE_OK ||
        bind(st, q) != SQLITE_OK)
        rc = db_fail(d, "query", err);
    else
        rc = run(d, st, row, arg, err);
    sqlite3_finalize(st);
    return rc;
}

int reader_query(struct reader *r, const struct store_query *q,
                 int (*row)(void *arg, const struct store_cell *cells, size_t n,
                            struct error *err),
                 void *arg, struct error *err)
{
    struct buf sql = BUF_INIT;
    int rc = build(&sql, q, err);

    if (rc == 0) {
        pthread_mutex_lock(&r->lock);
        rc = query_locked(&r->db, sql.data, q, row, arg, err);
        pthread_mutex_unlock(&r->lock);
    }
    buf_clear(&sql);
    return rc;
}

int query_open(struct reader *r, const char *path, const char *name,
               struct error *err)
{
    int64_t n;

    pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
    /* SQLite opens the log by its name when it first reads. It has to be the
     * log of the connection that writes, also after a later loss. */
    return db_open(&r->db, path, name, true, err) < 0
               ? -1
               : db_get_int(&r->db, "SELECT count(*) FROM sqlite_schema", &n,
                            err);
}

void query_close(struct reader *r)
{
    if (!r->db.h)
        return;
    db_close(&r->db);
    pthread_mutex_destroy(&r->lock);
}
