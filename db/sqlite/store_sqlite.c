/* store_sqlite.c - the SQLite store: state.db and metrics.db in one directory.
 *
 * state.db is authoritative: WAL, synchronous=FULL, one transaction per batch,
 * so one fsync makes a whole batch durable. metrics.db is a separate file
 * because its stream of rows must neither wait for these fsyncs nor delay them
 * (rows_sqlite.c). Queries use connections of their own (query_sqlite.c).
 *
 * Failures: a failed transaction is rolled back and stores nothing; the next
 * one starts afresh, so a full disk that gets space again needs no restart.
 * Never open(2) a database file here or in a test while a store is open:
 * closing it drops all locks of the process on it. */
#include "db/sqlite/store_sqlite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/high_water.h"
#include "db/put_aside.h"
#include "db/sqlite/schema_sqlite.h"
#include "db/store_dir.h"
#include "db/view.h"
#include "jobs/base/buf.h"
#include "jobs/base/file_atomic.h"

static struct store_sqlite *sqlite(struct store *s)
{
    return (struct store_sqlite *)s;
}

/* ---- append and load ----------------------------------------------------- */

/* After each transaction, before it is acknowledged. */
static void move_mark(struct store_sqlite *s, const struct store_batch *b)
{
    for (size_t i = 0; i < b->n_jobs; i++)
        if (b->jobs[i].id > s->last_job)
            s->last_job = b->jobs[i].id;
    struct mark m = {.job = s->last_job, .seq = s->seq};
    bool sync = m.job >= s->synced_job + MARK_SYNC_IDS;
    high_water_write(s->mark_fd, &m, sync);
    if (sync)
        s->synced_job = m.job;
}

static int sqlite_append(struct store *base, const struct store_batch *b,
                         struct error *err)
{
    struct store_sqlite *s = sqlite(base);

    if (b->n_events + b->n_jobs + b->n_attempts + b->n_archived == 0)
        return 0;
    if (file_loss_look_inside(&s->loss, &s->state, false, err) < 0 ||
        db_begin(&s->state, err) < 0)
        return -1;
    if (batch_put(s, b, err) < 0) {
        db_rollback(&s->state);
        return -1;
    }
    /* The numbers of its events are not used again: no append succeeds any
     * more. */
    if (file_loss_look_inside(&s->loss, &s->state, true, err) < 0)
        return -1;
    for (size_t i = 0; i < b->n_events; i++)
        b->events[i].seq = ++s->seq;
    if (b->n_events > 0)
        move_mark(s, b);
    return 0;
}

/* Decodes the current row. The caller of the fold handles events of an unknown
 * kind. */
static struct store_event store_event_of_row(sqlite3_stmt *st)
{
    const char *name = (const char *)sqlite3_column_text(st, 3);
    struct store_event e = {
        .seq = (uint64_t)sqlite3_column_int64(st, 0),
        .job = (uint64_t)sqlite3_column_int64(st, 1),
        .attempt = (int32_t)sqlite3_column_int64(st, 2),
        .at_s = sqlite3_column_double(st, 4),
        .uid = sqlite3_column_type(st, 5) == SQLITE_NULL
                   ? -1
                   : sqlite3_column_int64(st, 5),
        .detail = (const char *)sqlite3_column_text(st, 6),
    };

    if (!name || job_event_from_name(name, &e.ev) < 0)
        e.ev = EV_N;
    return e;
}

int store_events_each(const struct db *d, sqlite3_stmt *st,
                      int (*each)(void *arg, const struct store_event *event,
                                  struct error *err),
                      void *arg, struct error *err)
{
    int rc = sqlite3_step(st), failed = 0;

    while (failed == 0 && rc == SQLITE_ROW) {
        struct store_event e = store_event_of_row(st);
        if (each(arg, &e, err) < 0)
            failed = -1;
        else
            rc = sqlite3_step(st);
    }
    if (failed == 0 && rc != SQLITE_DONE)
        failed = db_fail(d, "load events", err);
    (void)sqlite3_reset(st);
    return failed;
}

/* For most jobs that ended long ago only an index is read: the scan of events
 * begins with the first job that is not archived. */
static int sqlite_load(struct store *base,
                       int (*each)(void *arg, const struct store_event *event,
                                   struct error *err),
                       void *arg, struct error *err)
{
    static const char first[] =
        "SELECT coalesce(min(seq), 0) FROM event INDEXED BY event_of_job"
        " WHERE NOT EXISTS (SELECT 1 FROM archived AS a"
        " WHERE a.job = event.job)";
    static const char events[] =
        "SELECT " EVENT_COLUMNS " FROM event WHERE seq >= ?1 AND NOT EXISTS"
        " (SELECT 1 FROM archived AS a WHERE a.job = event.job) ORDER BY seq";
    const struct db *d = &sqlite(base)->state;
    sqlite3_stmt *st = NULL;
    int64_t from;

    if (db_get_int(d, first, &from, err) < 0 ||
        db_prepare(d, events, &st, err) < 0)
        return -1;
    int rc = from == 0 ? 0
             : sqlite3_bind_int64(st, 1, from) != SQLITE_OK
                 ? db_fail(d, "load events", err)
                 : store_events_each(d, st, each, arg, err);
    sqlite3_finalize(st);
    return rc;
}

static int sqlite_load_jobs(struct store *base, uint64_t first, uint64_t last,
                            int (*each)(void *arg,
                                        const struct store_event *event,
                                        struct error *err),
                            void *arg, struct error *err)
{
    return archive_events(&sqlite(base)->archive, first, last, each, arg, err);
}

static int sqlite_past(struct store *base, struct store_past *ret,
                       struct error *err)
{
    return archive_past(&sqlite(base)->archive, ret, err);
}

static int sqlite_archived(
    struct store *base, const struct store_archive_query *q,
    int (*each)(void *arg, const struct store_archived *job, struct error *err),
    void *arg, struct error *err)
{
    return archive_find(&sqlite(base)->archive, q, each, arg, err);
}

static int sqlite_lines(struct store *base, uint64_t first, uint64_t last,
                        int (*each)(void *arg, uint64_t job, const char *line,
                                    struct error *err),
                        void *arg, struct error *err)
{
    return archive_lines(&sqlite(base)->archive, first, last, each, arg, err);
}

static int sqlite_remove_jobs(struct store *base, const uint64_t *jobs,
                              size_t n, double at_s, struct error *err)
{
    struct store_sqlite *s = sqlite(base);

    if (file_loss_look_inside(&s->loss, &s->state, false, err) < 0 ||
        remove_jobs(&s->state, jobs, n, at_s, err) < 0)
        return -1;
    return file_loss_look_inside(&s->loss, &s->state, true, err);
}

static int sqlite_removed(struct store *base, uint64_t job,
                          struct store_removed *ret, struct error *err)
{
    return archive_removed(&sqlite(base)->archive, job, ret, err);
}

/* ---- the other operations ------------------------------------------------ */

/* Handles rc of a call of metrics.db, and returns it. */
static int marked(struct store_sqlite *s, int rc)
{
    if (rc < 0 && s->rows.is_damaged && !s->is_marked)
        s->is_marked = put_aside_mark(s->dir);
    return rc;
}

static int sqlite_rows(struct store *base, uint64_t job, int32_t attempt,
                       const struct metric_row *rows, size_t n, size_t *ret_new,
                       struct error *err)
{
    struct store_sqlite *s = sqlite(base);
    return marked(s,
                  rows_insert(&s->rows, job, attempt, rows, n, ret_new, err));
}

static int sqlite_sync_rows(struct store *base, struct error *err)
{
    struct store_sqlite *s = sqlite(base);
    return marked(s, rows_sync(&s->rows, err));
}

static int sqlite_guesses(struct store *base, const char *class,
                          const char *gpu_type,
                          const struct store_guess *guesses, size_t n,
                          struct error *err)
{
    struct store_sqlite *s = sqlite(base);
    return marked(s, rows_guesses(&s->rows, class, gpu_type, guesses, n, err));
}

static int sqlite_purge_rows(struct store *base, struct store_purge *io,
                             struct error *err)
{
    struct store_sqlite *s = sqlite(base);
    return marked(s, rows_purge(&s->rows, io, err));
}

static int sqlite_query(struct store *base, const struct store_query *q,
                        int (*row)(void *arg, const struct store_cell *cells,
                                   size_t n, struct error *err),
                        void *arg, struct error *err)
{
    struct store_sqlite *s = sqlite(base);

    if (view_check_query(q, err) < 0)
        return -1;
    if (q->view <= VIEW_USAGE)
        return reader_query(&s->state_reader, q, row, arg, err);
    return marked(s, reader_query(&s->metrics_reader, q, row, arg, err));
}

static int sqlite_intact(struct store *base, enum store_file f,
                         struct error *err)
{
    struct store_sqlite *s = sqlite(base);

    return file_loss_look(f == STORE_STATE ? &s->loss : &s->rows.loss, err);
}

/* Through a reader: the other connections are of other threads. */
static int sqlite_rescue(struct store *base, enum store_file f,
                         const _Atomic bool *stop, char ret[STORE_FILE_CAP],
                         struct error *err)
{
    struct store_sqlite *s = sqlite(base);
    struct reader *r = f == STORE_STATE ? &s->state_reader : &s->metrics_reader;

    pthread_mutex_lock(&r->lock);
    int rc = file_loss_rescue(f == STORE_STATE ? &s->loss : &s->rows.loss,
                              &r->db, stop, ret, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

/* The last connection to a database removes the log by its name, which is
 * another database's by now. */
static void leave_lost(struct store_sqlite *s)
{
    if (s->loss.name && file_loss_is(&s->loss)) {
        db_keep_log(&s->state);
        db_keep_log(&s->rows.db); /* has state.db attached */
    }
    if (s->rows.loss.name && file_loss_is(&s->rows.loss))
        db_keep_log(&s->rows.db);
}

static void sqlite_destroy(struct store *base)
{
    if (!base)
        return;
    struct store_sqlite *s = sqlite(base);
    leave_lost(s);
    archive_close(&s->archive);
    query_close(&s->state_reader);
    query_close(&s->metrics_reader);
    rows_close(&s->rows);
    batch_finalize(s);
    file_loss_close(&s->loss);
    db_close(&s->state);
    if (s->mark_fd >= 0) {
        (void)fdatasync(s->mark_fd);
        close(s->mark_fd);
    }
    if (s->lock_fd >= 0)
        close(s->lock_fd); /* last: now another store may open the directory */
    free(s->dir);
    free(s);
}

static const struct event_store_ops sqlite_ops = {
    .name = "sqlite",
    .append = sqlite_append,
    .load = sqlite_load,
    .load_jobs = sqlite_load_jobs,
    .past = sqlite_past,
    .archived = sqlite_archived,
    .lines = sqlite_lines,
    .remove_jobs = sqlite_remove_jobs,
    .removed = sqlite_removed,
    .destroy = sqlite_destroy,
};

static const struct metric_store_ops sqlite_metric_ops = {
    .rows = sqlite_rows,
    .sync_rows = sqlite_sync_rows,
    .guesses = sqlite_guesses,
    .purge_rows = sqlite_purge_rows,
    .query = sqlite_query,
    .intact = sqlite_intact,
    .rescue = sqlite_rescue,
};

/* ---- opening ------------------------------------------------------------- */

static off_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* state.db is created before metrics.db. If only metrics.db exists, state.db
 * was lost, and starting again at job 1 would drop new rows as duplicates. */
static int check_pair(const char *dir, const char *state, const char *metrics,
                      struct error *err)
{
    char file[STORE_FILE_CAP];

    if (file_loss_rescued(dir, "state.db", file))
        return error_set(err, ERR_IO,
                         "state.db was lost while a daemon ran, which saved "
                         "what it had in %s: see RECOVERY in mgpu-ctld(8)",
                         file);
    if (size_of(state) == 0 && size_of(metrics) > 0)
        return error_set(err, ERR_IO,
                         "state.db: damaged: missing or empty beside a "
                         "metrics.db; restore it, or move both away");
    return 0;
}

static int state_open(struct store_sqlite *s, const char *path,
                      struct error *err)
{
    const struct db *d = &s->state;
    int64_t last, n, gone, last_job;

    if (db_open(&s->state, path, "state.db", false, err) < 0 ||
        schema_check(d, &schema_state, err) < 0 || db_wal(d, err) < 0 ||
        /* Overwrite deleted data, so that it cannot be read from the file. */
        db_exec(d, "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON",
                err) < 0 ||
        schema_migrate(d, &schema_state, err) < 0 ||
        batch_prepare(s, err) < 0 ||
        db_get_int(d,
                   "SELECT max((SELECT coalesce(max(seq), 0) FROM event),"
                   " (SELECT coalesce(max(last), 0) FROM removed))",
                   &last, err) < 0 ||
        db_get_int(d, "SELECT coalesce(sum(events), 0) FROM removed", &gone,
                   err) < 0 ||
        db_get_int(d, "SELECT count(*) FROM event", &n, err) < 0 ||
        db_get_int(d, "SELECT coalesce(max(job), 0) FROM job", &last_job, err) <
            0)
        return -1;
    if (last != n + gone)
        return error_set(err, ERR_IO,
                         "state.db: damaged: %lld events up to number %lld, "
                         "%lld removed",
                         (long long)n, (long long)last, (long long)gone);
    if (file_loss_open(&s->loss, d, path, err) < 0)
        return -1;
    s->seq = (uint64_t)last;
    s->last_job = s->synced_job = (uint64_t)last_job;
    return 0;
}

/* A damaged one is put aside and replaced by a new one: jobs run without its
 * rows. */
static int metrics_open(struct store_sqlite *s, const char *path,
                        const char *state_path, struct error *err)
{
    struct error why = ERROR_INIT;
    if (put_aside_is_marked(s->dir) && put_aside(s->dir, err) < 0)
        return -1;
    int rc = rows_open(&s->rows, path, state_path, &why);
    if (rc < 0 && !s->rows.is_damaged)
        return error_set(err, why.code, "%s", why.msg);
    if (rc < 0) {
        db_keep_log(&s->rows.db);
        rows_close(&s->rows);
        s->rows = (struct rows){.unsynced = false};
        rc = put_aside(s->dir, err);
        if (rc == 0)
            rc = rows_open(&s->rows, path, state_path, err);
    }
    if (rc == 0)
        rc = query_open(&s->metrics_reader, path, "metrics.db", err);
    s->metrics_reader.db.damaged = &s->rows.is_damaged;
    return rc;
}

static int open_all(struct store_sqlite *s, struct error *err)
{
    struct buf state = BUF_INIT, metrics = BUF_INIT;
    int rc = -1;

    if (buf_addf(&state, err, "%s/state.db", s->dir) == 0 &&
        buf_addf(&metrics, err, "%s/metrics.db", s->dir) == 0 &&
        check_pair(s->dir, state.data, metrics.data, err) == 0 &&
        high_water_open(s->dir, &s->mark_fd, err) == 0 &&
        state_open(s, state.data, err) == 0 &&
        metrics_open(s, metrics.data, state.data, err) == 0 &&
        query_open(&s->state_reader, state.data, "state.db", err) == 0 &&
        archive_open(&s->archive, state.data, err) == 0)
        rc = 0;
    buf_clear(&state);
    buf_clear(&metrics);
    return rc;
}

int store_sqlite_open(const char *dir, struct store **ret, struct error *err)
{
    struct store_sqlite *s = calloc(1, sizeof(*s));

    if (!s)
        return error_set(err, ERR_NOMEM, "store '%s'", dir);
    s->base = (struct store){.ops = &sqlite_ops, .metrics = &sqlite_metric_ops};
    s->lock_fd = s->mark_fd = -1;
    if (dir_take(dir, &s->dir, &s->lock_fd, err) < 0) {
        sqlite_destroy(&s->base);
        return -1;
    }
    int rc = open_all(s, err);
    if (rc == 0)
        rc = file_atomic_sync(s->dir, err); /* the names of new files */
    if (rc < 0) {
        sqlite_destroy(&s->base);
        return error_wrap(err, "store '%s'", dir);
    }
    *ret = &s->base;
    return 0;
}
