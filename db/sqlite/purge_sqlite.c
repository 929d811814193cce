/* purge_sqlite.c - delete metric rows of jobs that ended long ago from
 * metrics.db.
 *
 * A piece is the rows of one job, from one position of each table on, deleted
 * in one transaction: they are adjacent, so a thousand of them take some thirty
 * pages, and a writer waits no longer than for a batch of rows. A purge keeps
 * no state across restarts: a new one finds the remaining rows.
 *
 * The pages go to the file's free list, and new rows reuse them. The file keeps
 * its size; to return the space to the disk, SQLite would have to rewrite it
 * (VACUUM), or move each page twice. */
#include <string.h>

#include "db/sqlite/store_sqlite.h"

/* Per call: examining one takes 10 us. */
enum { JOBS_MAX = 256 };

/* By the columns of the key after the job. The last one has no metrics, only
 * one row per attempt. */
// clang-format off
#define TABLE(name, key, marks)                                               \
    "SELECT " key " FROM main." name " WHERE job = ?1 ORDER BY " key          \
    " LIMIT 1 OFFSET ?2",                                                     \
    "DELETE FROM main." name " WHERE job = ?1 AND (" key ") < (" marks ")",   \
    "DELETE FROM main." name " WHERE job = ?1"
static const struct {
    int n; /* of them */
    const char *edge, *below, *all;
} tables[PURGE_TABLES] = {
    {3, TABLE("iteration", "attempt, iteration, rank", "?2, ?3, ?4")},
    {4, TABLE("metric", "attempt, iteration, rank, name", "?2, ?3, ?4, ?5")},
    {4, TABLE("profile", "attempt, epoch, rank, metric", "?2, ?3, ?4, ?5")},
    {2, TABLE("epoch", "attempt, epoch", "?2, ?3")},
    {1, TABLE("run", "attempt", "?2")},
};

#define FIRST(name) "SELECT min(job) AS job FROM main." name " WHERE job >= ?1"
#define AND " UNION ALL "
static const char next[] =
    "SELECT min(job) FROM (" FIRST("iteration") AND FIRST("metric") AND
    FIRST("profile") AND FIRST("epoch") AND FIRST("run") ")";
// clang-format on

/* Deletes guesses about classes that have no run. */
static const char guesses[] =
    "DELETE FROM main.guess"
    " WHERE class NOT IN (SELECT class FROM main.run)";

static const char ended[] =
    "SELECT state FROM state.job WHERE job = ?1 AND ended_at < ?2";

static int prepare(struct purge *p, const struct db *d, struct error *err)
{
    if (p->next)
        return 0;
    for (int i = 0; i < PURGE_TABLES; i++)
        if (!p->edge[i] &&
            (db_prepare(d, tables[i].edge, &p->edge[i], err) < 0 ||
             db_prepare(d, tables[i].below, &p->below[i], err) < 0 ||
             db_prepare(d, tables[i].all, &p->all[i], err) < 0))
            return -1;
    if (!p->ended && db_prepare(d, ended, &p->ended, err) < 0)
        return -1;
    return db_prepare(d, next, &p->next, err);
}

void purge_close(struct purge *p)
{
    for (int i = 0; i < PURGE_TABLES; i++) {
        sqlite3_finalize(p->edge[i]);
        sqlite3_finalize(p->below[i]);
        sqlite3_finalize(p->all[i]);
    }
    sqlite3_finalize(p->ended);
    sqlite3_finalize(p->next);
    memset(p, 0, sizeof(*p));
}

/* 1: st has a row; 0: no more rows. */
static int step(const struct db *d, sqlite3_stmt *st, struct error *err)
{
    int rc = sqlite3_step(st);
    if (rc == SQLITE_ROW)
        return 1;
    (void)sqlite3_reset(st);
    return rc == SQLITE_DONE ? 0 : db_fail(d, "purge", err);
}

/* The first job from io on that has rows; 0: none. */
static int find_next(const struct purge *p, const struct db *d, uint64_t *io,
                     struct error *err)
{
    (void)sqlite3_bind_int64(p->next, 1, (int64_t)*io);
    int rc = step(d, p->next, err);
    if (rc < 0)
        return -1;
    *io = rc ? (uint64_t)sqlite3_column_int64(p->next, 0) : 0;
    (void)sqlite3_reset(p->next);
    return 0;
}

static int is_due(const struct purge *p, const struct db *d, uint64_t job,
                  double before_s, struct error *err)
{
    enum job_state state;
    (void)sqlite3_bind_int64(p->ended, 1, (int64_t)job);
    (void)sqlite3_bind_double(p->ended, 2, before_s);
    int rc = step(d, p->ended, err);
    if (rc <= 0)
        return rc;
    const char *name = (const char *)sqlite3_column_text(p->ended, 0);
    rc = name && job_state_from_name(name, &state) == 0 &&
         job_state_is_final(state);
    (void)sqlite3_reset(p->ended);
    return rc;
}

static int delete_by(const struct db *d, sqlite3_stmt *st, struct error *err)
{
    int rc = sqlite3_step(st);
    (void)sqlite3_reset(st);
    return rc == SQLITE_DONE ? sqlite3_changes(d->h) : db_fail(d, "purge", err);
}

/* Deletes at most max rows of one table; returns how many, fewer at its end. */
static int delete_from(const struct purge *p, const struct db *d, int table,
                       uint64_t job, size_t max, struct error *err)
{
    sqlite3_stmt *edge = p->edge[table];
    (void)sqlite3_bind_int64(edge, 1, (int64_t)job);
    (void)sqlite3_bind_int64(edge, 2, (int64_t)max);
    int rc = step(d, edge, err);
    if (rc < 0)
        return -1;
    sqlite3_stmt *st = rc ? p->below[table] : p->all[table];
    (void)sqlite3_bind_int64(st, 1, (int64_t)job);
    for (int i = 0; rc && i < tables[table].n; i++)
        (void)sqlite3_bind_value(st, 2 + i, sqlite3_column_value(edge, i));
    (void)sqlite3_reset(edge);
    return delete_by(d, st, err);
}

static int delete_some(const struct purge *p, const struct db *d,
                       struct store_purge *io, struct error *err)
{
    size_t n = 0;
    if (db_begin(d, err) < 0)
        return -1;
    for (int i = 0; n < io->max && i < PURGE_TABLES; i++) {
        int gone = delete_from(p, d, i, io->at, io->max - n, err);
        if (gone < 0) {
            db_rollback(d);
            return -1;
        }
        n += i < PURGE_TABLES - 1 ? (size_t)gone : 0;
    }
    if (db_commit(d, err) < 0) {
        db_rollback(d);
        return -1;
    }
    io->n = n;
    return 0;
}

/* Continues until it has deleted rows, or examined many jobs. */
int purge_some(struct purge *p, const struct db *d, struct store_purge *io,
               struct error *err)
{
    struct store_purge to = *io;
    to.n = 0;
    if (prepare(p, d, err) < 0)
        return -1;
    for (int i = 0; i < JOBS_MAX; i++) {
        if (find_next(p, d, &to.at, err) < 0)
            return -1;
        to.is_over = to.at == 0;
        if (to.is_over && db_exec(d, guesses, err) < 0)
            return -1;
        int due = to.is_over ? 1 : is_due(p, d, to.at, to.before_s, err);
        if (due < 0 || (due && !to.is_over && delete_some(p, d, &to, err) < 0))
            return -1;
        if (due)
            break;
        to.at++;
    }
    *io = to;
    return 0;
}
