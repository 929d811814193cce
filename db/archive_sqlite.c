/* archive_sqlite.c - jobs that the daemon keeps in mind no longer.
 *
 * They are looked up one by one, by an index, on the thread of whoever asks:
 * some 20 us for a key, 100 us for the events of a job.
 */
#include <math.h>
#include <string.h>

#include "db/store_sqlite.h"

static const char events[] =
    "SELECT " EVENT_COLUMNS " FROM event INDEXED BY event_of_job"
    " WHERE job BETWEEN ?1 AND ?2 ORDER BY seq";

#define ARCHIVED "SELECT job, uid, key, state, ended_at FROM archived"
static const char of_key[] = ARCHIVED " WHERE uid IS ?1 AND key = ?2"
                                      " AND job > ?3 ORDER BY job LIMIT ?4";
/* When a job ended is not always known. */
static const char since[] =
    ARCHIVED " WHERE job > ?1 AND (?2 IS NULL OR ended_at >= ?2)"
             " ORDER BY job LIMIT ?3";

int archive_open(struct archive *a, const char *path, struct error *err)
{
    pthread_mutex_init(&a->lock, NULL); /* cannot fail without attributes */
    if (db_open(&a->db, path, "state.db", true, err) < 0 ||
        db_prepare(&a->db, events, &a->events, err) < 0 ||
        db_prepare(&a->db, of_key, &a->of_key, err) < 0 ||
        db_prepare(&a->db, since, &a->since, err) < 0)
        return -1;
    return 0;
}

void archive_close(struct archive *a)
{
    if (!a->db.h)
        return;
    sqlite3_finalize(a->events);
    sqlite3_finalize(a->of_key);
    sqlite3_finalize(a->since);
    db_close(&a->db);
    pthread_mutex_destroy(&a->lock);
}

int archive_events(struct archive *a, uint64_t first, uint64_t last,
                   int (*each)(void *arg, const struct store_event *event,
                               struct error *err),
                   void *arg, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    int rc =
        sqlite3_bind_int64(a->events, 1, (int64_t)first) != SQLITE_OK ||
                sqlite3_bind_int64(a->events, 2, (int64_t)last) != SQLITE_OK
            ? db_fail(&a->db, "load events", err)
            : events_each(&a->db, a->events, each, arg, err);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

static int past_locked(const struct db *d, struct store_past *ret,
                       struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t job, seq;
    int rc;

    *ret = (struct store_past){.last_job = 0};
    if (db_get_int(d, "SELECT coalesce(max(job), 0) FROM archived", &job, err) <
            0 ||
        db_get_int(d, "SELECT coalesce(max(seq), 0) FROM event", &seq, err) <
            0 ||
        db_prepare(d, "SELECT state, count(*) FROM archived GROUP BY state",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(st, 0);
        enum job_state s;
        if (name && job_state_from_name(name, &s) == 0)
            ret->n[s] = (uint64_t)sqlite3_column_int64(st, 1);
    }
    ret->last_job = (uint64_t)job;
    ret->last_seq = (uint64_t)seq;
    rc = rc == SQLITE_DONE ? 0 : db_fail(d, "count the archive", err);
    sqlite3_finalize(st);
    return rc;
}

int archive_past(struct archive *a, struct store_past *ret, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    int rc = past_locked(&a->db, ret, err);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

static struct store_archived archived_of_row(sqlite3_stmt *st)
{
    const char *name = (const char *)sqlite3_column_text(st, 3);
    struct store_archived a = {
        .job = (uint64_t)sqlite3_column_int64(st, 0),
        .uid = sqlite3_column_type(st, 1) == SQLITE_NULL
                   ? -1
                   : sqlite3_column_int64(st, 1),
        .key = (const char *)sqlite3_column_text(st, 2),
        .end_s = sqlite3_column_type(st, 4) == SQLITE_NULL
                     ? (double)NAN
                     : sqlite3_column_double(st, 4),
    };

    if (!name || job_state_from_name(name, &a.state) < 0)
        a.state = JOB_STATE_N;
    return a;
}

static int bind(sqlite3_stmt *st, const struct store_archive_query *q)
{
    int64_t limit = q->limit > 0 ? q->limit : -1;
    int rc, n = 1;

    if (q->key) {
        rc = q->uid < 0 ? sqlite3_bind_null(st, n++)
                        : sqlite3_bind_int64(st, n++, q->uid);
        if (rc == SQLITE_OK)
            rc = sqlite3_bind_text(st, n++, q->key, -1, SQLITE_TRANSIENT);
        if (rc == SQLITE_OK)
            rc = sqlite3_bind_int64(st, n++, (int64_t)q->after);
    } else {
        rc = sqlite3_bind_int64(st, n++, (int64_t)q->after);
        if (rc == SQLITE_OK && isinf(q->since_s) && q->since_s < 0)
            rc = sqlite3_bind_null(st, n++);
        else if (rc == SQLITE_OK)
            rc = sqlite3_bind_double(st, n++, q->since_s);
    }
    return rc == SQLITE_OK ? sqlite3_bind_int64(st, n, limit) : rc;
}

static int find_locked(struct archive *a, const struct store_archive_query *q,
                       int (*each)(void *arg, const struct store_archived *job,
                                   struct error *err),
                       void *arg, struct error *err)
{
    sqlite3_stmt *st = q->key ? a->of_key : a->since;
    int failed = 0, rc = bind(st, q);

    if (rc == SQLITE_OK)
        rc = sqlite3_step(st);
    while (failed == 0 && rc == SQLITE_ROW) {
        struct store_archived job = archived_of_row(st);
        if (each(arg, &job, err) < 0)
            failed = -1;
        else
            rc = sqlite3_step(st);
    }
    if (failed == 0 && rc != SQLITE_DONE)
        failed = db_fail(&a->db, "look into the archive", err);
    (void)sqlite3_reset(st);
    return failed;
}

int archive_find(struct archive *a, const struct store_archive_query *q,
                 int (*each)(void *arg, const struct store_archived *job,
                             struct error *err),
                 void *arg, struct error *err)
{
    pthread_mutex_lock(&a->lock);
    int rc = find_locked(a, q, each, arg, err);
    pthread_mutex_unlock(&a->lock);
    return rc;
}
