/* select_sqlite.c - a SELECT that somebody wrote, over the views of mgpu-db(5).
 *
 * It has connections of its own that can only read, and all that it names is
 * looked at while it is prepared: no more is read than the columns that the
 * views read themselves. Those are taken down first, by letting SQLite prepare
 * a SELECT of each view. A table is no view, so a column of one that is named
 * without a view around it is refused; by giving a part of the statement the
 * name of a view somebody may come by it all the same, but by none that this
 * view does not have. How many rows a table has is told to anybody.
 *
 * What never ends is stopped by the clock, which is looked at every LOOK_OPS
 * steps of SQLite's machine. A single step is bounded by the limits on lengths,
 * by functions of our own where SQLite's take their product, and by the memory
 * that the statement may have: select_sqlite.h. Nothing goes to a temporary
 * file.
 */
#include <stdio.h>
#include <string.h>

#include "db/sqlite/select_sqlite.h"
#include "db/sqlite/store_sqlite.h"
#include "db/view.h"
#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

enum { LOOK_OPS = 100, COLUMNS_MAX = 200, MEMORY_MIB = 128 };

static const struct {
    int what, most;
} bounds[] = {
    {SQLITE_LIMIT_LENGTH, 2 << 20}, /* a specification has 1 MiB at most */
    {SQLITE_LIMIT_SQL_LENGTH, 1 << 16}, {SQLITE_LIMIT_COLUMN, COLUMNS_MAX},
    {SQLITE_LIMIT_EXPR_DEPTH, 200},     {SQLITE_LIMIT_COMPOUND_SELECT, 100},
    {SQLITE_LIMIT_VDBE_OP, 100000},     {SQLITE_LIMIT_VARIABLE_NUMBER, 0},
    {SQLITE_LIMIT_WORKER_THREADS, 0},
};

struct select {
    const struct store_select *q;
    struct db db;
    bool is_recording;
    struct buf known;    /* "metrics.iteration.loss by v_iteration\n" each */
    struct error denied; /* the first that was */
    double until_s;
    bool is_late;
    struct select_calls calls;
};

/* ---- what may be read -----------------------------------------------------
 */

static bool is_view(const char *name)
{
    for (int i = 0; i < VIEW_N; i++)
        if (strcmp(views[i].name, name) == 0)
            return true;
    return false;
}

/* The line of a column of a table that `by` reads; empty for one too long. */
static void line_of(const char *db, const char *table, const char *column,
                    const char *by, char *out, size_t cap)
{
    int n = snprintf(out, cap, "\n%s.%s.%s by %s\n", db, table, column, by);
    if (n < 0 || (size_t)n >= cap)
        out[0] = '\0';
}

/* For no column the rows are counted, of what has a name in the statement
 * alone, too. */
static bool may_read(const struct select *s, const char *table,
                     const char *column, const char *db, const char *by)
{
    char line[400];
    if (!*column || is_view(table) || strcmp(table, "json_each") == 0 ||
        strcmp(table, "json_tree") == 0)
        return true;
    line_of(db, table, column, by ? by : "", line, sizeof(line));
    return by && line[0] && strstr(buf_str(&s->known), line);
}

/* Without memory for it the column cannot be read. */
static int record(struct select *s, const char *table, const char *column,
                  const char *db, const char *by)
{
    char line[400];
    line_of(db, table, column, by, line, sizeof(line));
    return buf_addstr(&s->known, line, NULL) < 0 ? SQLITE_DENY : SQLITE_OK;
}

static int deny(struct select *s, const char *what, const char *of,
                const char *column)
{
    if (s->denied.code == ERR_NONE)
        (void)error_set(&s->denied, ERR_DENIED,
                        "only the views of mgpu-db(5) can be read, and nothing "
                        "changed: %s%s%.60s%s%.60s is refused",
                        what, of ? " " : "", of ? of : "", column ? "." : "",
                        column ? column : "");
    return SQLITE_DENY;
}

static const char *name_of(int action)
{
    switch (action) {
    case SQLITE_INSERT:
        return "INSERT into";
    case SQLITE_UPDATE:
        return "UPDATE of";
    case SQLITE_DELETE:
        return "DELETE from";
    case SQLITE_PRAGMA:
        return "PRAGMA";
    case SQLITE_ATTACH:
        return "ATTACH";
    case SQLITE_DETACH:
        return "DETACH";
    case SQLITE_TRANSACTION:
    case SQLITE_SAVEPOINT:
        return "a transaction:";
    default:
        return "what is no SELECT";
    }
}

static int authorize(void *arg, int action, const char *a, const char *b,
                     const char *db, const char *by)
{
    struct select *s = arg;
    if (s->is_recording)
        return action == SQLITE_READ && by
                   ? record(s, a, b ? b : "", db ? db : "", by)
                   : SQLITE_OK;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        /* The second one compares each key with each. */
        return strcmp(b, "load_extension") == 0 || strcmp(b, "json_patch") == 0
                   ? deny(s, "function", b, NULL)
                   : SQLITE_OK;
    case SQLITE_READ:
        return may_read(s, a, b ? b : "", db ? db : "", by)
                   ? SQLITE_OK
                   : deny(s, "reading", a, b && *b ? b : NULL);
    default:
        return deny(s, name_of(action), a, NULL);
    }
}

/* ---- its connection -------------------------------------------------------
 */

static int look_at_clock(void *arg)
{
    struct select *s = arg;
    s->is_late = s->is_late || clock_real.now_s(&clock_real) > s->until_s;
    return s->is_late || (s->q->stop && *s->q->stop);
}

static int attach(struct select *s, const char *path, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = -1;
    if (db_prepare(&s->db, "ATTACH ?1 AS metrics", &st, err) < 0)
        return -1;
    if (sqlite3_bind_text(st, 1, path, -1, SQLITE_STATIC) == SQLITE_OK &&
        sqlite3_step(st) == SQLITE_DONE)
        rc = 0;
    else
        (void)db_fail(&s->db, "attach", err);
    sqlite3_finalize(st);
    return rc;
}

/* What comes of preparing it is all that is wanted. */
static int learn(struct select *s, const char *text, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc = sqlite3_prepare_v2(s->db.h, text, -1, &st, NULL);
    sqlite3_finalize(st);
    return rc == SQLITE_OK ? 0 : db_fail(&s->db, "set up", err);
}

static int learn_views(struct select *s, struct error *err)
{
    char text[100];
    int rc;
    s->is_recording = true;
    /* Those that SQLite has made of functions when they are first named. */
    rc = learn(s, "SELECT 1 FROM json_each('[]'), json_tree('[]')", err);
    for (int i = 0; rc == 0 && i < VIEW_N; i++) {
        (void)snprintf(text, sizeof(text), "SELECT * FROM %s AS t",
                       views[i].name);
        rc = learn(s, text, err);
    }
    s->is_recording = false;
    return rc;
}

static int open_both(struct select *s, const char *dir, struct error *err)
{
    char state[1024], metrics[1024];
    int n = snprintf(state, sizeof(state), "%s/state.db", dir);
    int m = snprintf(metrics, sizeof(metrics), "%s/metrics.db", dir);
    if (n < 0 || m < 0 || (size_t)m >= sizeof(metrics))
        return error_set(err, ERR_CONFIG, "'%s' is too long", dir);
    if (db_open(&s->db, state, "sql", true, err) < 0 ||
        attach(s, metrics, err) < 0 ||
        db_exec(&s->db, "PRAGMA query_only = 1; PRAGMA temp_store = MEMORY",
                err) < 0)
        return -1;
    s->calls.is_over = look_at_clock;
    s->calls.arg = s;
    if (select_calls_add(s->db.h, &s->calls) != SQLITE_OK)
        return db_fail(&s->db, "set up", err);
    if (sqlite3_set_authorizer(s->db.h, authorize, s) != SQLITE_OK)
        return db_fail(&s->db, "set up", err);
    if (learn_views(s, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++)
        (void)sqlite3_limit(s->db.h, bounds[i].what, bounds[i].most);
    sqlite3_progress_handler(s->db.h, LOOK_OPS, look_at_clock, s);
    return 0;
}

/* ---- the statement --------------------------------------------------------
 */

static int failed(const struct select *s, struct error *err)
{
    if (s->denied.code != ERR_NONE)
        return error_set(err, ERR_DENIED, "%s", s->denied.msg);
    if (s->is_late)
        return error_set(err, ERR_TIMEOUT, "stopped after %g s",
                         s->q->time_max_s);
    if (s->q->stop && *s->q->stop)
        return error_set(err, ERR_UNAVAIL, "the daemon is stopping");
    if (select_memory_is_out())
        return error_set(err, ERR_LIMIT,
                         "it needs more than %d MiB of memory: let it name "
                         "less, or sort fewer rows",
                         (int)MEMORY_MIB);
    (void)db_fail(&s->db, "select", err);
    if (err && err->code == ERR_EXTERN) /* of what was written */
        err->code = ERR_INVAL;
    return -1;
}

static int prepare(struct select *s, sqlite3_stmt **ret, struct error *err)
{
    const char *rest = NULL;
    sqlite3_stmt *more = NULL;
    if (sqlite3_prepare_v2(s->db.h, s->q->text, -1, ret, &rest) != SQLITE_OK)
        return failed(s, err);
    /* Of blanks and comments nothing is made. */
    int rc =
        *rest ? sqlite3_prepare_v2(s->db.h, rest, -1, &more, NULL) : SQLITE_OK;
    sqlite3_finalize(more);
    if (rc != SQLITE_OK || more)
        return error_set(err, ERR_INVAL, "one statement at a time");
    if (!*ret || sqlite3_column_count(*ret) == 0 ||
        !sqlite3_stmt_readonly(*ret) || sqlite3_stmt_isexplain(*ret))
        return error_set(err, ERR_DENIED,
                         "only the views of mgpu-db(5) can be read, and "
                         "nothing changed: expected a SELECT");
    return 0;
}

static int read_rows(struct select *s, sqlite3_stmt *st, select_row_f *row,
                     void *arg, bool *ret_is_cut, struct error *err)
{
    struct store_cell cells[COLUMNS_MAX];
    int n = sqlite3_column_count(st), rc = SQLITE_DONE;
    for (int i = 0; i < n && i < COLUMNS_MAX; i++)
        cells[i] = (struct store_cell){.name = sqlite3_column_name(st, i)};
    int more = row(arg, cells, (size_t)n, true, err);
    for (int64_t k = 0; more > 0 && k <= s->q->rows_max; k++) {
        rc = sqlite3_step(st);
        if (rc != SQLITE_ROW)
            break;
        if (k == s->q->rows_max) {
            more = 0;
            break;
        }
        for (int i = 0; i < n && i < COLUMNS_MAX; i++)
            cells[i] = cell_of(st, i);
        more = row(arg, cells, (size_t)n, false, err);
    }
    if (more < 0)
        return -1;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        return failed(s, err);
    *ret_is_cut = more == 0;
    return 0;
}

int store_sqlite_select(const char *dir, const struct store_select *q,
                        select_row_f *row, void *arg, bool *ret_is_cut,
                        struct error *err)
{
    struct select s = {.q = q, .known = BUF_INIT};
    sqlite3_stmt *st = NULL;
    s.denied = (struct error)ERROR_INIT;
    s.until_s = clock_real.now_s(&clock_real) + q->time_max_s;
    int rc = select_memory_begin((int64_t)MEMORY_MIB << 20, err);
    if (rc == 0)
        rc = open_both(&s, dir, err);
    if (rc == 0)
        rc = prepare(&s, &st, err);
    if (rc == 0)
        rc = read_rows(&s, st, row, arg, ret_is_cut, err);
    sqlite3_finalize(st);
    db_close(&s.db);
    select_memory_end();
    buf_clear(&s.known);
    return rc;
}
