/* remove_sqlite.c - delete archived jobs from state.db; see event_store.h.
 *
 * One transaction deletes all rows of a job and adds a row to `removed`, which
 * accounts for the missing numbers in the log, and keeps them from being
 * assigned again. What its attempts used stays in `usage`. */
#include "db/sqlite/store_sqlite.h"

enum { KEEP = 0, USAGE, EVENTS, JOB, ATTEMPTS, ARCHIVED, LINE, STEPS };

static const char insert[] =
    "INSERT INTO removed (job, uid, state, ended_at, removed_at, events, seqs,"
    " last, sum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

static const char what[] =
    "SELECT a.uid, a.state, a.ended_at, count(*), sum(e.seq), max(e.seq)"
    " FROM archived AS a JOIN event AS e ON e.job = a.job WHERE a.job = ?1"
    " GROUP BY a.job";

static const char *const steps[STEPS] = {
    [USAGE] = "INSERT INTO usage SELECT * FROM v_usage WHERE job = ?1",
    [EVENTS] = "DELETE FROM event WHERE job = ?1",
    [JOB] = "DELETE FROM job WHERE job = ?1",
    [ATTEMPTS] = "DELETE FROM attempt WHERE job = ?1",
    [ARCHIVED] = "DELETE FROM archived WHERE job = ?1",
    [LINE] = "DELETE FROM line WHERE job = ?1",
};

static int note(const struct db *d, sqlite3_stmt *of, sqlite3_stmt *to,
                uint64_t job, double at_s, struct error *err)
{
    struct db_row r = db_row_summed(to);
    int rc = sqlite3_bind_int64(of, 1, (int64_t)job);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(of);
    if (rc == SQLITE_DONE)
        return error_set(err, ERR_STATE, "job %llu is not archived",
                         (unsigned long long)job);
    if (rc != SQLITE_ROW)
        return db_fail(d, "remove a job", err);
    db_put_int(&r, (int64_t)job);
    db_put_count(&r, sqlite3_column_type(of, 0) == SQLITE_NULL
                         ? -1
                         : sqlite3_column_int64(of, 0));
    db_put_text(&r, (const char *)sqlite3_column_text(of, 1));
    db_put_real(&r, sqlite3_column_double(of, 2));
    db_put_real(&r, at_s);
    db_put_int(&r, sqlite3_column_int64(of, 3));
    db_put_int(&r, sqlite3_column_int64(of, 4));
    db_put_int(&r, sqlite3_column_int64(of, 5));
    db_put_sum(&r);
    rc = db_run(d, &r, "remove a job", err);
    (void)sqlite3_reset(of);
    return rc;
}

static int remove_all(const struct db *d, const uint64_t *jobs, size_t n,
                      double at_s, struct error *err)
{
    sqlite3_stmt *of = NULL, *to = NULL, *gone[STEPS] = {NULL};
    int rc = db_prepare(d, what, &of, err);
    if (rc == 0)
        rc = db_prepare(d, insert, &to, err);
    for (int i = USAGE; rc == 0 && i < STEPS; i++)
        rc = db_prepare(d, steps[i], &gone[i], err);
    for (size_t k = 0; rc == 0 && k < n; k++) {
        rc = note(d, of, to, jobs[k], at_s, err);
        for (int i = USAGE; rc == 0 && i < STEPS; i++) {
            struct db_row r = db_row(gone[i]);
            db_put_int(&r, (int64_t)jobs[k]);
            rc = db_run(d, &r, "remove a job", err);
        }
    }
    sqlite3_finalize(of);
    sqlite3_finalize(to);
    for (int i = USAGE; i < STEPS; i++)
        sqlite3_finalize(gone[i]);
    return rc;
}

int remove_jobs(const struct db *d, const uint64_t *jobs, size_t n, double at_s,
                struct error *err)
{
    if (db_begin(d, err) < 0)
        return -1;
    if (remove_all(d, jobs, n, at_s, err) == 0 && db_commit(d, err) == 0)
        return 0;
    db_rollback(d);
    return -1;
}
