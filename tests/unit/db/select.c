/* select.c - S15: a SELECT that somebody wrote: what it may read, what it may
 * not, and that it ends. */
#include <math.h>

#include "db/view.h"
#include "jobs/base/buf.h"
#include "tests/unit/db/files.h"

static struct tmp t;
static struct buf out;
static struct error err;
static bool is_cut;

static void fill(struct store *s)
{
    struct store_event e = {.job = 1, .ev = EV_SUBMIT, .at_s = 1, .uid = -1};
    struct store_job j = {
        .id = 1, .name = "n", .spec = "{\"a\":[7,8]}", .start_s = NAN};
    struct store_attempt a = {
        .job = 1, .attempt = 1, .class = "c", .gpus = 1, .nodes = 1};
    struct store_batch b = {.events = &e,
                            .n_events = 1,
                            .jobs = &j,
                            .n_jobs = 1,
                            .attempts = &a,
                            .n_attempts = 1};
    struct metric_row rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = (struct metric_row){
            .kind = METRIC_ITERATION,
            .iteration = {
                .iteration = i + 1, .t_iter = 0.5, .loss = i, .samples = 8}};
    ok(s->ops->append(s, &b, &err) == 0 &&
           s->ops->rows(s, 1, 1, rows, 8, NULL, &err) == 0,
       "stores one of each");
}

/* "a|b\n1|-\n" */
static int add_row(void *arg, const struct store_cell *c, size_t n,
                   bool is_head, struct error *e)
{
    for (size_t i = 0; i < n; i++) {
        const char *sep = i > 0 ? "|" : "";
        int rc =
            is_head ? buf_addf(arg, e, "%s%s", sep, c[i].name)
            : c[i].kind == CELL_INT
                ? buf_addf(arg, e, "%s%lld", sep, (long long)c[i].i)
            : c[i].kind == CELL_REAL ? buf_addf(arg, e, "%s%g", sep, c[i].r)
            : c[i].kind == CELL_TEXT ? buf_addf(arg, e, "%s%s", sep, c[i].s)
                                     : buf_addf(arg, e, "%s-", sep);
        if (rc < 0)
            return -1;
    }
    return buf_addstr(arg, "\n", e) < 0 ? -1 : 1;
}

static int ask_for(const char *text, int64_t rows_max, double time_max_s)
{
    const struct store_select q = {
        .text = text, .rows_max = rows_max, .time_max_s = time_max_s};
    buf_reset(&out);
    err = (struct error)ERROR_INIT;
    is_cut = false;
    return store_sqlite_select(t.dir, &q, add_row, &out, &is_cut, &err);
}

static void gives(const char *text, const char *want)
{
    if (ask_for(text, 100, 30) < 0)
        tap_diag("%s: %s", text, err.msg);
    is_str(buf_str(&out), want, text);
}

static void is_refused(const char *text, enum err_code code, const char *why)
{
    is_int(ask_for(text, 100, 30), -1, text);
    is_int(err.code, code, "  is refused");
    if (!ok(strstr(err.msg, why) != NULL, "  and why"))
        tap_diag("%s", err.msg);
}

static void test_views(void)
{
    char text[100];
    for (int v = 0; v < VIEW_N; v++) {
        (void)snprintf(text, sizeof(text), "SELECT * FROM %s AS t",
                       views[v].name);
        if (!ok(ask_for(text, 100, 30) == 0, "%s", text))
            tap_diag("%s", err.msg);
        (void)snprintf(text, sizeof(text), "%s", buf_str(&out));
        ok(strncmp(text, views[v].columns[0], strlen(views[v].columns[0])) == 0,
           "  begins with its first column");
    }
    gives("SELECT count(*) FROM v_iteration", "count(*)\n8\n");
    gives("SELECT count(*) AS n FROM v_scaling", "n\n1\n");
    gives("SELECT j.name, max(i.loss) AS m FROM v_job AS j JOIN v_iteration "
          "AS i USING (job) GROUP BY j.job",
          "name|m\nn|7\n");
    gives("WITH x AS (SELECT job, loss FROM v_iteration WHERE loss > 5) "
          "SELECT (SELECT name FROM v_job AS j WHERE j.job = x.job) AS j, "
          "loss FROM x ORDER BY loss DESC -- and so on;",
          "j|loss\nn|7\nn|6\n");
    gives("SELECT metrics.v_epoch.epoch FROM metrics.v_epoch", "epoch\n");
    gives("SELECT value FROM v_job, json_each(spec, '$.a');", "value\n7\n8\n");
    gives("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c "
          "LIMIT 3) SELECT n, NULL AS no, 'x' AS x, 0.5 AS r FROM c",
          "n|no|x|r\n1|-|x|0.5\n2|-|x|0.5\n3|-|x|0.5\n");
    is_int(ask_for("SELECT iteration FROM v_iteration ORDER BY 1", 3, 30), 0,
           "no more than so many rows");
    is_str(buf_str(&out), "iteration\n1\n2\n3\n", "  the first ones");
    ok(is_cut, "  and it is known");
    (void)ask_for("SELECT iteration FROM v_iteration", 8, 30);
    ok(!is_cut, "just as many are all");
}

static void test_refused(void)
{
    static const struct {
        const char *text, *why;
    } writes[] = {
        {"INSERT INTO job (job) VALUES (9)", "INSERT into job"},
        {"UPDATE job SET name = 'x'", "UPDATE of job"},
        {"DELETE FROM event", "DELETE from event"},
        {"DROP VIEW v_job", "is refused"},
        {"CREATE TABLE x (y)", "is refused"},
        {"CREATE TEMP TABLE x AS SELECT * FROM v_job", "is refused"},
        {"WITH x AS (SELECT 1) DELETE FROM metric", "DELETE from metric"},
        {"PRAGMA user_version = 9", "PRAGMA user_version"},
        {"PRAGMA table_info(job)", "PRAGMA table_info"},
        {"SELECT * FROM pragma_table_info('job')", "is refused"},
        {"ATTACH '/etc/passwd' AS p", "ATTACH"},
        {"DETACH metrics", "DETACH"},
        {"VACUUM", "expected a SELECT"},
        {"VACUUM INTO '/tmp/mgpu-copy.db'", "expected a SELECT"},
        {"BEGIN", "a transaction: BEGIN"},
        {"SAVEPOINT a", "a transaction:"},
        {"REINDEX", "is refused"},
        {"ANALYZE", "is refused"},
        {"EXPLAIN SELECT * FROM v_job", "expected a SELECT"},
        {"SELECT load_extension('/tmp/x.so')", "load_extension"},
        {"SELECT * FROM sqlite_schema", "reading sqlite_"},
        {"SELECT sql FROM sqlite_master", "reading sqlite_"},
        {"SELECT * FROM job", "reading job.job"},
        {"SELECT detail FROM event", "reading event.detail"},
        {"SELECT 1 FROM v_job WHERE 0 < (SELECT max(job) FROM attempt)",
         "reading attempt.job"},
        {"WITH x AS (SELECT sum FROM attempt) SELECT * FROM x", "attempt.sum"},
        {"WITH v_attempt AS (SELECT sum FROM attempt) SELECT * FROM "
         "v_attempt",
         "attempt.sum"},
        {"WITH x AS (SELECT job FROM attempt) SELECT * FROM x", "attempt.job"},
        {"SELECT * FROM (SELECT sum FROM attempt) AS v_attempt", "attempt.sum"},
        {"", "expected a SELECT"},
        {"-- nothing", "expected a SELECT"},
    };
    for (size_t i = 0; i < sizeof(writes) / sizeof(writes[0]); i++)
        is_refused(writes[i].text, ERR_DENIED, writes[i].why);
    is_refused("SELECT nix FROM v_job", ERR_INVAL, "no such column");
    is_refused("DELETE FROM v_job", ERR_INVAL, "because it is a view");
    is_refused("SELECT * FROM nowhere", ERR_INVAL, "no such table");
    is_refused("SELEKT 1", ERR_INVAL, "syntax error");
    is_refused("SELECT 1; SELECT 2", ERR_INVAL, "one statement");
    is_refused("SELECT 1; DROP TABLE job", ERR_INVAL, "one statement");
    is_refused("SELECT ?1", ERR_INVAL, "variable number");
    is_refused("SELECT hex(zeroblob(1 << 30))", ERR_LIMIT, "too big");
    gives("SELECT name FROM v_job", "name\nn\n");
    ok(access("/tmp/mgpu-copy.db", F_OK) < 0, "no copy was made");
}

/* Each would take for ever. */
static void test_ends(void)
{
    static const char *const bombs[] = {
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        "SELECT count(*) FROM c",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) "
        "SELECT n FROM c WHERE n < 0",
        "SELECT count(*) FROM v_iteration a, v_iteration b, v_iteration c, "
        "v_iteration d, v_iteration e, v_iteration f, v_iteration g, "
        "v_iteration h, v_iteration i, v_iteration j, v_iteration k",
    };
    const _Atomic bool stop = true;
    const struct store_select q = {
        .text = bombs[0], .rows_max = 10, .time_max_s = 3600, .stop = &stop};
    for (size_t i = 0; i < sizeof(bombs) / sizeof(bombs[0]); i++) {
        is_int(ask_for(bombs[i], 10, 0.2), -1, "it does not end");
        is_int(err.code, ERR_TIMEOUT, "  but by the clock");
        is_str(err.msg, "stopped after 0.2 s", "  which is said");
    }
    is_int(store_sqlite_select(t.dir, &q, add_row, &out, &is_cut, &err), -1,
           "nor is a daemon kept that stops");
    is_int(err.code, ERR_UNAVAIL, "  by it");
}

/* ---- functions of our own -------------------------------------------------
 */

/* What SQLite says itself; "-" for NULL. */
static void is_as_sqlite(const char *expression)
{
    char text[300], want[200] = "x\n";
    sqlite3 *h = NULL;
    sqlite3_stmt *st = NULL;
    (void)snprintf(text, sizeof(text), "SELECT %s AS x", expression);
    if (sqlite3_open(":memory:", &h) != SQLITE_OK ||
        sqlite3_prepare_v2(h, text, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
        ok(false, "%s: %s", expression, sqlite3_errmsg(h));
    } else {
        const char *got = (const char *)sqlite3_column_text(st, 0);
        (void)snprintf(want + 2, sizeof(want) - 2, "%s\n", got ? got : "-");
        gives(text, want);
    }
    sqlite3_finalize(st);
    (void)sqlite3_close(h);
}

static void test_functions(void)
{
    static const char *const same[] = {
        "instr('a\xc3\xa4"
        "bc', 'b')",
        "instr('abc', 'x')",
        "instr('abc', '')",
        "instr('', '')",
        "instr(NULL, 'a')",
        "instr('a', NULL)",
        "instr(x'c3a462', x'62')",
        "instr(1234, 34)",
        "instr('aab', 'ab')",
        "replace('abcabc', 'b', 'xyz')",
        "replace('aaa', 'aa', 'b')",
        "replace('abc', '', 'x')",
        "replace('abc', 'abc', '')",
        "replace('abc', 'x', NULL)",
        "replace('', 'a', 'b')",
        "replace(12321, 2, 45)",
        "replace('a.a.a', '.', '')",
        "trim('  a b ')",
        "ltrim('  a ') || '|'",
        "'|' || rtrim(' a  ')",
        "trim('xyaxy', 'yx')",
        "trim('\xc3\xa4"
        "b\xc3\xa4', '\xc3\xa4')",
        "ltrim('\xc3\xa4\xc3\xb6' || 'b', '\xc3\xb6\xc3\xa4')",
        "rtrim('b\xc3\xa4', 'x')",
        "trim('aaa', 'a') || '|'",
        "trim('a', '')",
        "trim(NULL)",
        "trim('a', NULL)",
        "trim('')",
        "'Abc' LIKE 'a%'",
        "'abc' LIKE '_b_'",
        "'a%c' LIKE 'a\\%c' ESCAPE '\\'",
        "'abc' LIKE 'a\\%c' ESCAPE '\\'",
        "NULL LIKE 'a'",
        "'a' LIKE NULL",
        "'a' NOT LIKE 'b'",
        "'abc' GLOB 'a*'",
        "'Abc' GLOB 'a*'",
        "'a1' GLOB 'a[0-9]'",
        "glob('*b', 'ab')",
        "12 LIKE '1%'",
        "'' LIKE '%'",
        "'\xc3\xa4' LIKE '_'",
    };
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++)
        is_as_sqlite(same[i]);
    gives("SELECT instr(replace(printf('%.*c', 1000000, 'a'), 'a', 'ab'), "
          "'ba') AS n",
          "n\n2\n");
    gives("SELECT length(trim(printf('%.*c', 2000000, ' '))) AS n", "n\n0\n");
    gives("SELECT printf('%.*c', 1000000, 'a') LIKE '%a%a%b%' AS n", "n\n0\n");
    is_refused("SELECT replace(printf('%.*c', 2000000, 'a'), 'a', 'abc')",
               ERR_LIMIT, "too big");
    is_refused("SELECT 'a' LIKE 'b' ESCAPE 'xy'", ERR_INVAL, "ESCAPE");
    is_refused("SELECT json_patch('{}', '{}')", ERR_DENIED, "json_patch");
}

/* One step of each would go on for minutes, in SQLite's own words. */
static void test_long_steps(void)
{
#define LONG(n) "printf('%.*c', " #n ", 'a')"
    gives("SELECT instr(" LONG(2000000) ", " LONG(1000000) " || 'b') AS n",
          "n\n0\n");
    gives("SELECT length(replace(" LONG(2000000) ", " LONG(
              1000000) " || 'b', '')) AS n",
          "n\n2000000\n");
    is_refused("SELECT trim(" LONG(2000000) ", printf('%.*c', 1000000, 'b') "
                                            "|| 'a')",
               ERR_INVAL, "too long");
    is_refused("SELECT " LONG(2000000) " LIKE '%' || " LONG(900) " || 'b'",
               ERR_INVAL, "too long");
    is_refused("SELECT " LONG(2000000) " GLOB '*' || " LONG(900) " || 'b'",
               ERR_INVAL, "too long");
    is_int(ask_for("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 "
                   "FROM c) SELECT count(*) FROM c WHERE " LONG(
                       1000000) " || n LIKE '%' || " LONG(90) " || 'b'",
                   10, 0.2),
           -1, "many steps");
    is_int(err.code, ERR_TIMEOUT, "  end by the clock");
}

/* Gigabytes, and by the first one before the first step. */
static void test_memory(void)
{
    struct buf text = BUF_INIT;
    int rc = buf_addstr(&text, "WITH a0 (x) AS (SELECT 1)", NULL);
    for (int i = 1; i < 40; i++)
        rc |= buf_addf(&text, NULL,
                       ", a%d (x) AS (SELECT p.x FROM a%d AS p, a%d AS q)", i,
                       i - 1, i - 1);
    rc |= buf_addstr(&text, " SELECT count(*) FROM a39", NULL);
    ok(rc == 0, "a statement of %zu bytes", text.len);
    is_refused(buf_str(&text), ERR_LIMIT, "128 MiB");
    buf_clear(&text);
    is_refused("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM "
               "c) SELECT n, " LONG(1000000) " || n AS t FROM c ORDER BY t",
               ERR_LIMIT, "128 MiB");
    is_refused("WITH RECURSIVE c(n) AS (SELECT 1 UNION SELECT n + 1 FROM c) "
               "SELECT count(DISTINCT n || " LONG(10000) ") FROM c",
               ERR_LIMIT, "128 MiB");
    gives("SELECT name FROM v_job", "name\nn\n");
}

int main(void)
{
    tmp_begin(&t);
    buf_init(&out);
    struct store *s = must_open(&t);
    fill(s);
    test_views();
    test_refused();
    test_ends();
    test_functions();
    test_long_steps();
    test_memory();
    s->ops->destroy(s);
    is_int(ask_for("SELECT * FROM v_job", 9, 9), 0, "nobody has to write");
    tmp_clear(&t);
    is_int(ask_for("SELECT * FROM v_job", 9, 9), -1, "without files");
    is_int(err.code, ERR_IO, "  is an error");
    tmp_end(&t);
    buf_clear(&out);
    return tap_done();
}
