/* sqlite.c - the SQLite store on files and disks that are not as they
 * should be. What all stores promise is in tests/contract/store.c. */
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "db/metric_store.h"
#include "jobs/base/buf.h"
#include "jobs/base/rng.h"
#include "tests/tap.h"
#include "tests/unit/db/files.h"

static int append_n(struct store *s, int n, size_t detail, struct error *err)
{
    char *text = calloc(1, detail + 1);
    int rc = text ? 0 : -1;

    if (text)
        memset(text, 'x', detail);
    for (int i = 0; rc == 0 && i < n; i++) {
        struct store_event e = {
            .job = 1, .ev = EV_STALL, .at_s = 1, .detail = text};
        struct store_batch b = {.events = &e, .n_events = 1};
        rc = s->ops->append(s, &b, err);
    }
    free(text);
    return rc;
}

static int count_row(void *arg, const struct store_cell *c, size_t n,
                     struct error *err)
{
    (void)c;
    (void)n;
    return count_event(arg, NULL, err);
}

static struct metric_row iteration(int i)
{
    return (struct metric_row){.kind = METRIC_ITERATION,
                               .iteration = {.iteration = i, .t_iter = 1}};
}

/* A store of 200 events and 1000 rows, closed: no WAL is left. */
static void make(struct tmp *t)
{
    struct error err = ERROR_INIT;
    struct store *s = must_open(t);
    struct metric_row rows[1000];

    for (int i = 0; i < 1000; i++)
        rows[i] = iteration(i);
    ok(append_n(s, 200, 100, &err) == 0 &&
           s->metrics->rows(s, 1, 1, rows, 1000, NULL, &err) == 0,
       "fills the store");
    s->ops->destroy(s);
}

/* ---- refusals ------------------------------------------------------------ */

static void refused(struct tmp *t, enum err_code code, const char *file,
                    const char *why)
{
    struct error err = ERROR_INIT;
    struct store *s = NULL;

    if (!ok(store_sqlite_open(t->dir, &s, &err) == -1 && !s, "refused: %s",
            why)) {
        s->ops->destroy(s);
        return;
    }
    is_int(err.code, code, "with its code");
    ok(strstr(err.msg, file) && strstr(err.msg, why), "says: %s", err.msg);
    const char *text = strstr(err.msg, "malformed");
    ok(!text || !strstr(text + 1, "malformed"), "once");
}

static void test_versions(void)
{
    struct tmp t;
    struct buf before = BUF_INIT, after = BUF_INIT;
    struct error err = ERROR_INIT;

    tmp_begin(&t);
    make(&t);
    sql(&t, "state.db", "PRAGMA user_version = 99");
    ok(buf_read_file(&before, tmp_path(&t, "state.db"), 1 << 24, &err) == 0,
       "reads the file");
    refused(&t, ERR_CONFIG, "state.db", "schema version 99");
    ok(buf_read_file(&after, tmp_path(&t, "state.db"), 1 << 24, &err) == 0 &&
           after.len == before.len &&
           memcmp(after.data, before.data, after.len) == 0,
       "the newer file stays as it is");
    buf_clear(&before);
    buf_clear(&after);
    for (int old = 1; old <= 12; old += 11) {
        char text[60];
        (void)snprintf(text, sizeof(text), "PRAGMA user_version = %d", old);
        sql(&t, "state.db", text);
        refused(&t, ERR_CONFIG, "state.db", "let its jobs end with that mgpu");
    }
    sql(&t, "state.db", "PRAGMA user_version = 15");
    sql(&t, "metrics.db", "PRAGMA user_version = 98");
    refused(&t, ERR_CONFIG, "metrics.db", "schema version 98");
    sql(&t, "metrics.db", "PRAGMA user_version = 6");
    refused(&t, ERR_CONFIG, "metrics.db", "let its jobs end with that mgpu");
    sql(&t, "metrics.db", "PRAGMA user_version = 8");
    sql(&t, "state.db", "PRAGMA application_id = 7");
    refused(&t, ERR_CONFIG, "state.db", "another program's");
    tmp_clear(&t);
    sql(&t, "state.db", "CREATE TABLE recipe (name TEXT)");
    refused(&t, ERR_CONFIG, "state.db", "another program's");
    tmp_end(&t);
}

static void test_create(void)
{
    struct tmp t;

    tmp_begin(&t);
    int fd = creat(tmp_path(&t, "state.db"), 0600);
    ok(fd >= 0 && close(fd) == 0, "a file of version 0 and no length");
    struct store *s = must_open(&t);
    is_int(count_events(s), 0, "is upgraded");
    s->ops->destroy(s);
    tmp_clear(&t);
    sql(&t, "state.db", "PRAGMA auto_vacuum = FULL; VACUUM"); /* a header */
    s = must_open(&t);
    is_int(count_events(s), 0, "so is one that has only a header");
    s->ops->destroy(s);
    sqlite3 *h = NULL;
    sqlite3_stmt *st = NULL;
    ok(sqlite3_open(tmp_path(&t, "state.db"), &h) == SQLITE_OK &&
           sqlite3_prepare_v2(h, "PRAGMA user_version", -1, &st, NULL) ==
               SQLITE_OK &&
           sqlite3_step(st) == SQLITE_ROW,
       "reads the version");
    is_int(sqlite3_column_int(st, 0), 15, "to the newest version");
    sqlite3_finalize(st);
    sqlite3_close(h);
    tmp_end(&t);
}

/* ---- damage -------------------------------------------------------------- */

static void overwrite(struct tmp *t, const char *file, off_t at,
                      const char *bytes, size_t n)
{
    int fd = open(tmp_path(t, file), O_WRONLY);
    if (fd < 0 || pwrite(fd, bytes, n, at) != (ssize_t)n || close(fd) < 0)
        exit(1);
}

static off_t size_of(struct tmp *t, const char *file)
{
    struct stat st;
    return stat(tmp_path(t, file), &st) == 0 ? st.st_size : -1;
}

static void cut(struct tmp *t, const char *file)
{
    ok(truncate(tmp_path(t, file), size_of(t, file) / 2) == 0, "%s: cut", file);
}

static void cut_header(struct tmp *t, const char *file)
{
    ok(truncate(tmp_path(t, file), 700) == 0, "%s: cut in the header", file);
}

static void lose_header(struct tmp *t, const char *file)
{
    overwrite(t, file, 0, "not a database at all", 21);
}

static void lose_page(struct tmp *t, const char *file)
{
    char zeros[4096] = {0};
    overwrite(t, file, 4096, zeros, sizeof(zeros));
}

static const struct {
    void (*how)(struct tmp *t, const char *file);
    const char *why; /* NULL: the file's name */
} damages[] = {{cut, "malformed"},
               {cut_header, NULL},
               {lose_header, "not a database"},
               {lose_page, "damaged"}};
enum { N_DAMAGES = sizeof(damages) / sizeof(damages[0]) };

static void test_damage(void)
{
    static const char file[] = "state.db";
    struct tmp t;

    for (size_t i = 0; i < N_DAMAGES; i++) {
        tmp_begin(&t);
        make(&t);
        damages[i].how(&t, file);
        refused(&t, ERR_IO, file, damages[i].why ? damages[i].why : file);
        tmp_end(&t);
    }
}

/* Adds a row, and returns how many there are; -1: one of them failed. */
static int put_and_count(struct store *s, struct error *err)
{
    struct store_query q = {.view = VIEW_ITERATION, .rank = -1};
    struct metric_row row = iteration(5000);
    int n = 0;
    return s->metrics->rows(s, 1, 1, &row, 1, NULL, err) < 0 ||
                   s->metrics->query(s, &q, count_row, &n, err) < 0
               ? -1
               : n;
}

/* F06: killed while both files are created, sooner and later: the next one
 * finds nothing or all, and nothing by half. */
static void test_create_killed(void)
{
    struct tmp t;
    int n_good = 0, n_killed = 0;
    enum { ROUNDS = 30 };

    tmp_begin(&t);
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec later = {.tv_nsec = i * 400000L};
        int status = 0;
        tmp_clear(&t);
        pid_t child = fork();
        if (child == 0) {
            struct error err = ERROR_INIT;
            struct store *s = NULL;
            _exit(store_sqlite_open(t.dir, &s, &err) < 0);
        }
        (void)nanosleep(&later, NULL);
        (void)kill(child, SIGKILL);
        if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
            n_killed++;
        struct store *s = must_open(&t);
        struct error err = ERROR_INIT;
        n_good += count_events(s) == 0 && put_and_count(s, &err) == 1;
        s->ops->destroy(s);
    }
    tap_diag("%d of %d were killed in time", n_killed, ROUNDS);
    ok(n_killed > 0, "some are killed before they are through");
    is_int(n_good, ROUNDS, "the next one creates what is missing");
    tmp_end(&t);
}

/* The store opens, with its jobs, a metrics.db that takes rows, and the old one
 * beside it under the name that store_sqlite_damage() gives. */
static void is_put_aside(struct tmp *t, off_t was_bytes)
{
    struct error err = ERROR_INIT;
    struct store_damage d;
    struct store *s = must_open(t);
    is_int(count_events(s), 200, "its jobs are there");
    is_int(put_and_count(s, &err), 1, "and a metrics.db begun anew");
    ok(store_sqlite_damage(t->dir, &d) && !d.is_waiting &&
           strncmp(d.file, "metrics.db.damaged-2", 20) == 0 &&
           size_of(t, d.file) == was_bytes,
       "the damaged one is %s", d.file);
    s->ops->destroy(s);
    s = must_open(t);
    is_int(put_and_count(s, &err), 1, "the new one stays");
    s->ops->destroy(s);
    ok(unlink(tmp_path(t, d.file)) == 0 && !store_sqlite_damage(t->dir, &d),
       "until it is moved away nothing else says so");
}

static void test_put_aside(void)
{
    static const char file[] = "metrics.db";
    struct store_damage d;
    struct tmp t;

    for (size_t i = 0; i < N_DAMAGES; i++) {
        tmp_begin(&t);
        make(&t);
        ok(!store_sqlite_damage(t.dir, &d), "nothing is damaged");
        damages[i].how(&t, file);
        is_put_aside(&t, size_of(&t, file));
        tmp_end(&t);
    }
}

/* Of a daemon that was killed: the log has rows that the file has not. */
static void test_put_aside_log(void)
{
    struct store_damage d;
    struct tmp t;

    tmp_begin(&t);
    make(&t);
    pid_t child = fork();
    if (child == 0) {
        struct error err = ERROR_INIT;
        struct store *s = NULL;
        _exit(store_sqlite_open(t.dir, &s, &err) < 0 ||
              put_and_count(s, &err) < 0);
    }
    int status = 1;
    ok(waitpid(child, &status, 0) == child && status == 0 &&
           size_of(&t, "metrics.db-wal") > 0,
       "a log is left");
    lose_header(&t, "metrics.db");
    struct store *s = must_open(&t);
    ok(store_sqlite_damage(t.dir, &d), "%s", d.file);
    (void)strncat(d.file, "-wal", sizeof(d.file) - strlen(d.file) - 1);
    ok(size_of(&t, d.file) > 0, "and its log: %s", d.file);
    s->ops->destroy(s);
    tmp_end(&t);
}

/* SQLite keeps pages in memory until another connection writes. */
static void damage_in_use(struct tmp *t)
{
    lose_page(t, "metrics.db");
    sql(t, "metrics.db", "PRAGMA user_version = 7");
}

/* Found by a call: that fails, all else goes on, and the next open puts it
 * aside. */
static void test_damage_in_use(void)
{
    struct error err = ERROR_INIT;
    struct store_damage d;
    struct tmp t;

    for (int reads = 0; reads < 2; reads++) {
        struct store_query q = {.view = VIEW_ITERATION, .rank = -1};
        struct metric_row row = iteration(5000);
        int n = 0;
        err = (struct error)ERROR_INIT;
        tmp_begin(&t);
        make(&t);
        struct store *s = must_open(&t);
        damage_in_use(&t);
        off_t bytes = size_of(&t, "metrics.db");
        int rc = reads ? s->metrics->query(s, &q, count_row, &n, &err)
                       : s->metrics->rows(s, 1, 1, &row, 1, NULL, &err);
        ok(rc < 0 && err.code == ERR_IO, "a %s fails: %s",
           reads ? "query" : "row", err.msg);
        ok(store_sqlite_damage(t.dir, &d) && d.is_waiting && !d.file[0],
           "the next open is told");
        ok(append_n(s, 1, 10, &err) == 0 && count_events(s) == 201,
           "events are stored");
        s->ops->destroy(s);
        sql(&t, "state.db", "DELETE FROM event WHERE seq = 201");
        is_put_aside(&t, bytes);
        tmp_end(&t);
    }
}

static void test_lost(void)
{
    struct tmp t;

    tmp_begin(&t);
    make(&t);
    ok(truncate(tmp_path(&t, "state.db"), 0) == 0, "state.db is empty");
    refused(&t, ERR_IO, "state.db", "missing or empty");
    ok(unlink(tmp_path(&t, "state.db")) == 0, "state.db is missing");
    refused(&t, ERR_IO, "state.db", "missing or empty");
    tmp_clear(&t);
    make(&t);
    ok(unlink(tmp_path(&t, "metrics.db")) == 0, "metrics.db is missing");
    struct store *s = must_open(&t);
    is_int(count_events(s), 200, "the events are there");
    s->ops->destroy(s);
    sql(&t, "state.db", "DELETE FROM event WHERE seq = 7");
    refused(&t, ERR_IO, "state.db", "199 events up to number 200");
    tmp_end(&t);
}

/* Whatever the bytes: an answer or an error, never a crash. */
static void test_noise(void)
{
    struct tmp t;
    struct rng rng;
    int opened = 0, refusals = 0;

    rng_seed(&rng, 7);
    for (int round = 0; round < 40; round++) {
        struct error err = ERROR_INIT;
        struct store *s = NULL;
        const char *file = round % 2 ? "state.db" : "metrics.db";
        tmp_begin(&t);
        if (store_sqlite_open(t.dir, &s, &err) < 0 ||
            append_n(s, 50, 30, &err) < 0)
            exit(1);
        s->ops->destroy(s);
        for (int i = 0; i < 1 + round; i++) {
            char byte = (char)rng_u32(&rng);
            overwrite(&t, file, rng_u32(&rng) % (uint32_t)size_of(&t, file),
                      &byte, 1);
        }
        s = NULL;
        if (store_sqlite_open(t.dir, &s, &err) == 0) {
            opened++;
            for (int v = 0; v < VIEW_N; v++) {
                struct store_query q = {.view = (enum store_view)v};
                int n = 0;
                (void)s->metrics->query(s, &q, count_row, &n, &err);
            }
            (void)count_events(s);
            (void)append_n(s, 1, 10, &err);
            s->ops->destroy(s);
        } else {
            refusals += err.msg[0] != '\0';
        }
        tmp_end(&t);
    }
    is_int(opened + refusals, 40, "every damaged store opens or says why not");
    ok(refusals > 0, "%d of 40 say why not", refusals);
}

/* ---- a full disk --------------------------------------------------------- */

static void limit_files(rlim_t bytes)
{
    struct rlimit now;

    if (getrlimit(RLIMIT_FSIZE, &now) < 0)
        exit(1);
    now.rlim_cur = bytes < now.rlim_max ? bytes : now.rlim_max;
    if (setrlimit(RLIMIT_FSIZE, &now) < 0)
        exit(1);
}

static void test_full(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;

    (void)signal(SIGXFSZ, SIG_IGN);
    tmp_begin(&t);
    struct store *s = must_open(&t);
    ok(append_n(s, 3, 10, &err) == 0, "three events");
    limit_files(512 << 10);
    int stored = 0;
    while (stored < 1000 && append_n(s, 1, 5000, &err) == 0)
        stored++;
    ok(stored > 10 && stored < 1000, "then the disk is full (%d)", stored);
    is_int(err.code, ERR_LIMIT, "which is a limit");
    ok(strstr(err.msg, "state.db"), "says: %s", err.msg);
    is_int(append_n(s, 1, 5000, &err), -1, "and it stays full");
    is_int(count_events(s), 3 + stored, "what was stored can be read");
    struct metric_row rows[100];
    for (int i = 0; i < 100; i++)
        rows[i] = iteration(i);
    limit_files(4096);
    size_t added = 99;
    int rc = s->metrics->rows(s, 1, 1, rows, 100, &added, &err);
    limit_files(RLIM_INFINITY); /* nor could a result go to a file */
    is_int(rc, -1, "rows fail");
    is_int(err.code, ERR_LIMIT, "as a limit");
    is_int((long long)added, 99, "without a count");
    ok(append_n(s, 1, 5000, &err) == 0, "heals when there is room again");
    ok(s->metrics->rows(s, 1, 1, rows, 100, &added, &err) == 0 && added == 100,
       "and none of the failed rows was there");
    s->ops->destroy(s);
    s = must_open(&t);
    is_int(count_events(s), 4 + stored, "nothing more, nothing less");
    s->ops->destroy(s);
    tmp_end(&t);
    (void)signal(SIGXFSZ, SIG_DFL);
}

/* Somebody's shell in the middle of a SELECT must not stop the daemon. */
static void test_foreign_reader(void)
{
    struct tmp t;
    struct error err = ERROR_INIT;
    sqlite3 *h = NULL;
    sqlite3_stmt *st = NULL;

    tmp_begin(&t);
    struct store *s = must_open(&t);
    (void)append_n(s, 2, 10, &err);
    ok(sqlite3_open_v2(tmp_path(&t, "state.db"), &h, SQLITE_OPEN_READONLY,
                       NULL) == SQLITE_OK &&
           sqlite3_prepare_v2(h, "SELECT * FROM v_event", -1, &st, NULL) ==
               SQLITE_OK &&
           sqlite3_step(st) == SQLITE_ROW,
       "a shell reads");
    ok(append_n(s, 2000, 1000, &err) == 0, "the store writes");
    is_int(sqlite3_step(st), SQLITE_ROW, "the shell reads on");
    is_int(sqlite3_step(st), SQLITE_DONE, "what there was when it began");
    sqlite3_finalize(st);
    sqlite3_close(h);
    s->ops->destroy(s);
    tmp_end(&t);
}

int main(void)
{
    test_versions();
    test_create();
    test_create_killed();
    test_damage();
    test_put_aside();
    test_put_aside_log();
    test_damage_in_use();
    test_lost();
    test_noise();
    test_full();
    test_foreign_reader();
    return tap_done();
}
