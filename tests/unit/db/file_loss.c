/* file_loss.c - databases that are removed, replaced or truncated while a store
 * has them open. Nothing is acknowledged after that, and everything that was
 * acknowledged before is in the file that rescue() writes. */
#include <sys/stat.h>

#include "db/metric_store.h"
#include "tests/tap.h"
#include "tests/unit/db/files.h"

enum { EVENTS = 20, ROWS = 30 };

static int append_some(struct store *s, int n, struct error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        struct store_event e = {
            .job = 1, .ev = EV_STALL, .at_s = 1, .detail = "{}"};
        struct store_batch b = {.events = &e, .n_events = 1};
        rc = s->ops->append(s, &b, err);
    }
    return rc;
}

static int put_rows(struct store *s, int first, int n, struct error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < n; i++) {
        struct metric_row row = {
            .kind = METRIC_ITERATION,
            .iteration = {.iteration = first + i, .t_iter = 1}};
        rc = s->metrics->rows(s, 1, 1, &row, 1, NULL, err);
    }
    return rc;
}

static int count_row(void *arg, const struct store_cell *c, size_t n,
                     struct error *err)
{
    (void)c;
    (void)n;
    return count_event(arg, NULL, err);
}

static int count_rows(struct store *s)
{
    struct store_query q = {.view = VIEW_ITERATION, .rank = -1};
    int n = 0;
    return s->metrics->query(s, &q, count_row, &n, NULL) < 0 ? -1 : n;
}

/* ---- what is done to the files --------------------------------------------
 */

static const char *file_of(enum store_file f)
{
    return f == STORE_STATE ? "state.db" : "metrics.db";
}

static const char *path_of(struct tmp *t, enum store_file f, const char *end)
{
    char name[64];
    (void)snprintf(name, sizeof(name), "%s%s", file_of(f), end);
    return tmp_path(t, name);
}

static void must(bool is_done, const char *what)
{
    if (!is_done) {
        perror(what);
        exit(1);
    }
}

static void lose_file(struct tmp *t, enum store_file f)
{
    must(unlink(path_of(t, f, "")) == 0, "unlink");
}

static void lose_all(struct tmp *t, enum store_file f)
{
    lose_file(t, f);
    must(unlink(path_of(t, f, "-wal")) == 0, "unlink");
    must(unlink(path_of(t, f, "-shm")) == 0, "unlink");
}

static void lose_log(struct tmp *t, enum store_file f)
{
    must(unlink(path_of(t, f, "-wal")) == 0, "unlink");
}

static void empty_file(struct tmp *t, enum store_file f)
{
    must(truncate(path_of(t, f, ""), 0) == 0, "truncate");
}

static void cut_file(struct tmp *t, enum store_file f)
{
    must(truncate(path_of(t, f, ""), 4096) == 0, "truncate");
}

static void empty_log(struct tmp *t, enum store_file f)
{
    must(truncate(path_of(t, f, "-wal"), 0) == 0, "truncate");
}

static void cut_log(struct tmp *t, enum store_file f)
{
    must(truncate(path_of(t, f, "-wal"), 5000) == 0, "truncate");
}

/* Another store's, as a backup is: one file, without a log. */
static void make_other(struct tmp *other)
{
    tmp_begin(other);
    struct store *s = must_open(other);
    ok(append_some(s, 3, NULL) == 0, "another store");
    s->ops->destroy(s);
    sql(other, "state.db", "PRAGMA journal_mode = DELETE");
    sql(other, "metrics.db", "PRAGMA journal_mode = DELETE");
}

static void replace_file(struct tmp *t, enum store_file f)
{
    struct tmp other;
    char to[512];
    make_other(&other);
    (void)snprintf(to, sizeof(to), "%s", path_of(t, f, ""));
    must(rename(tmp_path(&other, file_of(f)), to) == 0, "rename");
    tmp_end(&other);
}

/* As cp does: into the same inode. */
static void overwrite_file(struct tmp *t, enum store_file f)
{
    struct tmp other;
    struct buf text = BUF_INIT;
    make_other(&other);
    must(buf_read_file(&text, tmp_path(&other, file_of(f)), 1 << 24, NULL) == 0,
         "read");
    int fd = open(path_of(t, f, ""), O_WRONLY | O_TRUNC);
    must(fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len &&
             close(fd) == 0,
         "write");
    buf_clear(&text);
    tmp_end(&other);
}

static void replace_log(struct tmp *t, enum store_file f)
{
    lose_log(t, f);
    int fd = creat(path_of(t, f, "-wal"), 0600);
    must(fd >= 0 && close(fd) == 0, "creat");
}

static const struct loss {
    const char *name, *says;
    void (*how)(struct tmp *t, enum store_file f);
    bool is_seen; /* by the look that reads nothing */
    bool is_gone; /* the content, not the name alone */
} losses[] = {
    {"removed", "was removed", lose_file, true, false},
    {"removed with its log", "was removed", lose_all, true, false},
    {"replaced by another", "was replaced", replace_file, true, false},
    {"emptied", "was truncated", empty_file, true, true},
    {"truncated to a page", "was truncated", cut_file, false, true},
    {"overwritten in place", "was overwritten", overwrite_file, false, true},
    {"the log is removed", "-wal was removed", lose_log, true, false},
    {"the log is replaced", "-wal was replaced", replace_log, true, false},
    {"the log is emptied", "-wal was truncated", empty_log, false, true},
    {"the log is truncated", "-wal was truncated", cut_log, false, true},
};
enum { N_LOSSES = sizeof(losses) / sizeof(losses[0]) };

/* ---- the tests ------------------------------------------------------------
 */

static void is_refused(const struct loss *l, int rc, const struct error *err)
{
    ok(rc < 0 && err->code == ERR_IO && strstr(err->msg, l->says),
       "refused: %s", rc < 0 ? err->msg : "no");
}

/* RECOVERY of mgpu-ctld(8). */
static void recover(struct tmp *t, enum store_file f, const char *rescued)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    char from[512];
    for (size_t i = 0; i < 3; i++)
        (void)unlink(path_of(t, f, ends[i]));
    (void)snprintf(from, sizeof(from), "%s", tmp_path(t, rescued));
    ok(rename(from, path_of(t, f, "")) == 0, "%s is the database", rescued);
}

static struct store *make(struct tmp *t)
{
    struct error err = ERROR_INIT;
    tmp_begin(t);
    struct store *s = must_open(t);
    /* One is in the file, the others in the log. */
    ok(append_some(s, 1, &err) == 0 && put_rows(s, 0, 1, &err) == 0, "begins");
    s->ops->destroy(s);
    s = must_open(t);
    ok(append_some(s, EVENTS - 1, &err) == 0 &&
           put_rows(s, 1, ROWS - 1, &err) == 0,
       "is filled %s", err.msg);
    ok(s->metrics->intact(s, STORE_STATE, &err) == 0 &&
           s->metrics->intact(s, STORE_METRICS, &err) == 0,
       "both files are there %s", err.msg);
    return s;
}

/* Pages that were overwritten exist nowhere any more: a copy is either right or
 * none. */
static bool is_beyond_rescue(struct tmp *t, const struct loss *l,
                             struct store *s, enum store_file f)
{
    struct error err = ERROR_INIT;
    char rescued[STORE_FILE_CAP] = "";
    if (!l->is_gone)
        return false;
    int rc = s->metrics->rescue(s, f, NULL, rescued, &err);
    ok(rc < 0 && err.code == ERR_STATE, "it cannot be rescued: %s", err.msg);
    ok(rc < 0 && rescued[0] == 0, "and there is no copy");
    s->ops->destroy(s);
    tmp_end(t);
    return true;
}

static void test_state(const struct loss *l)
{
    struct error err = ERROR_INIT, again = ERROR_INIT;
    char rescued[STORE_FILE_CAP] = "";
    struct store *s2 = NULL;
    struct tmp t;

    tap_diag("state.db: %s", l->name);
    struct store *s = make(&t);
    l->how(&t, STORE_STATE);
    if (l->is_seen)
        is_refused(l, s->metrics->intact(s, STORE_STATE, &err), &err);
    is_refused(l, append_some(s, 1, &err), &err);
    is_refused(l, append_some(s, 1, &again), &again);
    is_refused(l, s->metrics->intact(s, STORE_STATE, &again), &again);
    ok(put_rows(s, 100, 1, &err) == 0, "rows are stored");
    if (is_beyond_rescue(&t, l, s, STORE_STATE))
        return;
    ok(s->metrics->rescue(s, STORE_STATE, NULL, rescued, &err) == 0,
       "it is rescued as %s %s", rescued, err.msg);
    s->ops->destroy(s);
    struct stat st;
    ok(stat(tmp_path(&t, rescued), &st) == 0 && (st.st_mode & 0777) == 0600,
       "for its user alone");
    ok(store_sqlite_open(t.dir, &s2, &err) < 0 && err.code == ERR_IO &&
           strstr(err.msg, rescued),
       "the next open says so: %s", err.msg);
    recover(&t, STORE_STATE, rescued);
    s = must_open(&t);
    ok(count_events(s) >= EVENTS && count_events(s) <= EVENTS + 1,
       "all that was acknowledged is there: %d", count_events(s));
    is_int(count_rows(s), ROWS + 1, "and all rows");
    ok(append_some(s, 1, &err) == 0, "it goes on %s", err.msg);
    s->ops->destroy(s);
    tmp_end(&t);
}

static void test_metrics(const struct loss *l)
{
    struct error err = ERROR_INIT;
    char rescued[STORE_FILE_CAP] = "";
    struct tmp t;

    tap_diag("metrics.db: %s", l->name);
    struct store *s = make(&t);
    l->how(&t, STORE_METRICS);
    if (l->is_seen)
        is_refused(l, s->metrics->intact(s, STORE_METRICS, &err), &err);
    is_refused(l, put_rows(s, 100, 1, &err), &err);
    is_refused(l, s->metrics->sync_rows(s, &err), &err);
    ok(append_some(s, 1, &err) == 0 &&
           s->metrics->intact(s, STORE_STATE, &err) == 0,
       "events are stored");
    if (is_beyond_rescue(&t, l, s, STORE_METRICS))
        return;
    ok(s->metrics->rescue(s, STORE_METRICS, NULL, rescued, &err) == 0,
       "it is rescued as %s %s", rescued, err.msg);
    s->ops->destroy(s);
    recover(&t, STORE_METRICS, rescued);
    s = must_open(&t);
    is_int(count_events(s), EVENTS + 1, "all events are there");
    ok(count_rows(s) >= ROWS && count_rows(s) <= ROWS + 1,
       "and all rows that were acknowledged: %d", count_rows(s));
    s->ops->destroy(s);
    tmp_end(&t);
}

/* What SQLite does to its files is no loss, whoever asks for it. */
static void test_foreign(void)
{
    static const char *const deeds[] = {
        "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint",
        "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)",
        "DELETE FROM event WHERE seq > 5; VACUUM;"
        "PRAGMA wal_checkpoint(RESTART)"};
    struct error err = ERROR_INIT;
    struct tmp t;

    struct store *s = make(&t);
    ok(append_some(s, 3000, &err) == 0, "a log that was restarted %s", err.msg);
    for (size_t i = 0; i < sizeof(deeds) / sizeof(deeds[0]); i++) {
        sql(&t, "state.db", deeds[i]);
        ok(append_some(s, 3, &err) == 0 &&
               s->metrics->intact(s, STORE_STATE, &err) == 0,
           "%s: goes on %s", deeds[i], err.msg);
    }
    sql(&t, "metrics.db", "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)");
    ok(put_rows(s, 200, 3, &err) == 0, "so does metrics.db %s", err.msg);
    s->ops->destroy(s);
    tmp_end(&t);
}

/* Nothing half written is left, and a later try succeeds. */
static void test_rescue_stopped(void)
{
    struct error err = ERROR_INIT;
    char rescued[STORE_FILE_CAP] = "";
    _Atomic bool stop = true;
    struct tmp t;

    struct store *s = make(&t);
    lose_all(&t, STORE_STATE);
    ok(s->metrics->rescue(s, STORE_STATE, &stop, rescued, &err) < 0 &&
           err.code == ERR_UNAVAIL,
       "the rescue is aborted: %s", err.msg);
    ok(access(tmp_path(&t, "state.db.part"), F_OK) < 0, "nothing is left");
    ok(s->metrics->rescue(s, STORE_STATE, NULL, rescued, &err) == 0,
       "again: %s", rescued);
    s->ops->destroy(s);
    tmp_end(&t);
}

int main(void)
{
    for (int i = 0; i < N_LOSSES; i++)
        test_state(&losses[i]);
    for (int i = 0; i < N_LOSSES; i++)
        test_metrics(&losses[i]);
    test_foreign();
    test_rescue_stopped();
    return tap_done();
}
