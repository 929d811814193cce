/* archive_sqlite.c - read archived jobs, which the daemon has evicted from
 * memory.
 *
 * Single jobs are looked up through an index, on the caller's thread: some 20
 * us for a key, 100 us for the events of a job. Lists are read a few thousand
 * rows at a time, 1 to 5 us for each. */
#include <math.h>
#include <string.h>

#include "db/sqlite/store_sqlite.h"

static const char events[] =
    "SELECT " EVENT_COLUMNS " FROM event INDEXED BY event_of_job"
    " WHERE job BETWEEN ?1 AND ?2 ORDER BY seq";

#define COLUMNS "a.job, a.uid, a.key, a.state, a.ended_at"
#define PLAIN "SELECT " COLUMNS ", NULL, NULL FROM archived AS a"
#define NAMED                            \
    "SELECT " COLUMNS ", j.name, j.user" \
    " FROM archived AS a LEFT JOIN job AS j USING (job)"
static const char of_key[] = PLAIN " WHERE a.uid IS ?1 AND a.key = ?2"
                                   " AND a.job > ?3 ORDER BY a.job LIMIT ?4";
static const char removed[] =
    "SELECT ended_at, removed_at FROM removed WHERE job = ?1";
static const char lines_of[] =
    "SELECT job, line FROM line WHERE job BETWEEN ?1 AND ?2 ORDER BY job";
/* The time of a job's end is not always known. */
#define SINCE                          \
    " WHERE a.job > ?1 AND a.job < ?2" \
    " AND (?3 IS NULL OR a.ended_at >= ?3)"
#define BY_ID SINCE " ORDER BY a.job LIMIT ?4"
#define NEWEST SINCE " ORDER BY a.job DESC LIMIT ?4"
#define AFTER_END                                          \
    " WHERE (a.ended_at, a.job) > (?3, ?1) AND a.job < ?2" \
    " ORDER BY a.ended_at, a.job LIMIT ?4"
static const char *const lists[ARCHIVE_BY_END + 1][2] = {
    [ARCHIVE_BY_ID] = {PLAIN BY_ID, NAMED BY_ID},
    [ARCHIVE_NEWEST] = {PLAIN NEWEST, NAMED NEWEST},
    [ARCHIVE_BY_END] = {PLAIN AFTER_END, NAMED AFTER_END},
};

static int open_reader(struct archive_reader *r, const char *path,
                       struct error *err)
{
    pthread_mutex_init(&r->lock, NULL); /* cannot fail without attributes */
    if (db_open(&r->db, path, "state.db", true, err) < 0 ||
        db_prepare(&r->db, events, &r->events, err) < 0 ||
        db_prepare(&r->db, of_key, &r->of_key, err) < 0 ||
        db_prepare(&r->db, removed, &r->removed, err) < 0 ||
        db_prepare(&r->db, lines_of, &r->lines, err) < 0)
        return -1;
    for (int order = 0; order <= ARCHIVE_BY_END; order++)
        for (int named = 0; named < 2; named++)
            if (db_prepare(&r->db, lists[order][named], &r->lists[order][named],
                           err) < 0)
                return -1;
    return 0;
}

static void close_reader(struct archive_reader *r)
{
    if (!r->db.h)
        return;
    sqlite3_finalize(r->events);
    sqlite3_finalize(r->of_key);
    sqlite3_finalize(r->removed);
    sqlite3_finalize(r->lines);
    for (int order = 0; order <= ARCHIVE_BY_END; order++)
        for (int named = 0; named < 2; named++)
            sqlite3_finalize(r->lists[order][named]);
    db_close(&r->db);
    pthread_mutex_destroy(&r->lock);
}

int archive_open(struct archive *a, const char *path, struct error *err)
{
    for (int i = 0; i < ARCHIVE_READERS; i++)
        if (open_reader(&a->readers[i], path, err) < 0)
            return -1;
    return 0;
}

void archive_close(struct archive *a)
{
    for (int i = 0; i < ARCHIVE_READERS; i++)
        close_reader(&a->readers[i]);
}

/* Takes a reader that is free, or else the last one. */
static struct archive_reader *take(struct archive *a)
{
    for (int i = 0; i < ARCHIVE_READERS - 1; i++)
        if (pthread_mutex_trylock(&a->readers[i].lock) == 0)
            return &a->readers[i];
    pthread_mutex_lock(&a->readers[ARCHIVE_READERS - 1].lock);
    return &a->readers[ARCHIVE_READERS - 1];
}

static void give_back(struct archive_reader *r)
{
    pthread_mutex_unlock(&r->lock);
}

int archive_events(struct archive *a, uint64_t first, uint64_t last,
                   int (*each)(void *arg, const struct store_event *event,
                               struct error *err),
                   void *arg, struct error *err)
{
    struct archive_reader *r = take(a);
    int rc =
        sqlite3_bind_int64(r->events, 1, (int64_t)first) != SQLITE_OK ||
                sqlite3_bind_int64(r->events, 2, (int64_t)last) != SQLITE_OK
            ? db_fail(&r->db, "load events", err)
            : store_events_each(&r->db, r->events, each, arg, err);
    give_back(r);
    return rc;
}

/* The maximum over present and removed rows. */
#define LAST(column, table, was)                                       \
    "SELECT max((SELECT coalesce(max(" column "), 0) FROM " table ")," \
    " (SELECT coalesce(max(" was "), 0) FROM removed))"

static int past_locked(const struct db *d, struct store_past *ret,
                       struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t job, seq;
    int rc;

    *ret = (struct store_past){.last_job = 0};
    if (db_get_int(d, LAST("job", "archived", "job"), &job, err) < 0 ||
        db_get_int(d, LAST("seq", "event", "last"), &seq, err) < 0 ||
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
    struct archive_reader *r = take(a);
    int rc = past_locked(&r->db, ret, err);
    give_back(r);
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
        .name = (const char *)sqlite3_column_text(st, 5),
        .user = (const char *)sqlite3_column_text(st, 6),
    };

    if (!name || job_state_from_name(name, &a.state) < 0)
        a.state = JOB_STATE_N;
    return a;
}

static int bind_key(sqlite3_stmt *st, const struct store_archive_query *q)
{
    int rc = q->uid < 0 ? sqlite3_bind_null(st, 1)
                        : sqlite3_bind_int64(st, 1, q->uid);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_text(st, 2, q->key, -1, SQLITE_TRANSIENT);
    return rc == SQLITE_OK ? sqlite3_bind_int64(st, 3, (int64_t)q->after) : rc;
}

static int bind_list(sqlite3_stmt *st, const struct store_archive_query *q)
{
    bool is_any = isinf(q->since_s) && q->since_s < 0;
    int64_t before = q->before > 0 && q->before <= INT64_MAX
                         ? (int64_t)q->before
                         : INT64_MAX;
    int rc = sqlite3_bind_int64(st, 1, (int64_t)q->after);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 2, before);
    if (rc != SQLITE_OK)
        return rc;
    return is_any && q->order != ARCHIVE_BY_END
               ? sqlite3_bind_null(st, 3)
               : sqlite3_bind_double(st, 3, q->since_s);
}

static int find(struct archive_reader *r, const struct store_archive_query *q,
                int (*each)(void *arg, const struct store_archived *job,
                            struct error *err),
                void *arg, struct error *err)
{
    sqlite3_stmt *st = q->key ? r->of_key : r->lists[q->order][q->has_names];
    int failed = 0, rc = q->key ? bind_key(st, q) : bind_list(st, q);

    if (rc == SQLITE_OK)
        rc = sqlite3_bind_int64(st, 4, q->limit > 0 ? q->limit : -1);
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
        failed = db_fail(&r->db, "look into the archive", err);
    (void)sqlite3_reset(st);
    return failed;
}

static double real_or_nan(sqlite3_stmt *st, int i)
{
    return sqlite3_column_type(st, i) == SQLITE_NULL
               ? (double)NAN
               : sqlite3_column_double(st, i);
}

int archive_removed(struct archive *a, uint64_t job, struct store_removed *ret,
                    struct error *err)
{
    struct archive_reader *r = take(a);
    int rc = sqlite3_bind_int64(r->removed, 1, (int64_t)job);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(r->removed);
    if (rc == SQLITE_ROW)
        *ret = (struct store_removed){.job = job,
                                      .end_s = real_or_nan(r->removed, 0),
                                      .removed_s = real_or_nan(r->removed, 1)};
    else if (rc == SQLITE_DONE)
        (void)error_set(err, ERR_NOTFOUND, "job %llu was not removed",
                        (unsigned long long)job);
    else
        (void)db_fail(&r->db, "look for a removed job", err);
    (void)sqlite3_reset(r->removed);
    give_back(r);
    return rc == SQLITE_ROW ? 0 : -1;
}

int archive_find(struct archive *a, const struct store_archive_query *q,
                 int (*each)(void *arg, const struct store_archived *job,
                             struct error *err),
                 void *arg, struct error *err)
{
    struct archive_reader *r = take(a);
    int rc = find(r, q, each, arg, err);

    give_back(r);
    return rc;
}

static int lines_each(struct archive_reader *r,
                      int (*each)(void *arg, uint64_t job, const char *line,
                                  struct error *err),
                      void *arg, struct error *err)
{
    int failed = 0, rc = sqlite3_step(r->lines);

    while (failed == 0 && rc == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(r->lines, 1);
        uint64_t job = (uint64_t)sqlite3_column_int64(r->lines, 0);
        if (text && each(arg, job, text, err) < 0)
            failed = -1;
        else
            rc = sqlite3_step(r->lines);
    }
    if (failed == 0 && rc != SQLITE_DONE)
        failed = db_fail(&r->db, "read lines of the archive", err);
    (void)sqlite3_reset(r->lines);
    return failed;
}

int archive_lines(struct archive *a, uint64_t first, uint64_t last,
                  int (*each)(void *arg, uint64_t job, const char *line,
                              struct error *err),
                  void *arg, struct error *err)
{
    struct archive_reader *r = take(a);
    int rc = sqlite3_bind_int64(r->lines, 1, (int64_t)first) != SQLITE_OK ||
                     sqlite3_bind_int64(r->lines, 2, (int64_t)last) != SQLITE_OK
                 ? db_fail(&r->db, "read lines of the archive", err)
                 : lines_each(r, each, arg, err);

    give_back(r);
    return rc;
}
