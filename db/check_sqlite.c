/* check_sqlite.c - whether a store is sound, in use or not; see store.h.
 *
 * SQLite knows whether its pages are; that the log makes sense is looked up
 * here without the engine that wrote it: every event moves its job along the
 * table of jobs/state.c, attempts grow by one and are claimed once, numbers
 * have no gap, and the rows that SQL answers with say what the log says.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_sqlite.h"
#include "db/schema_sqlite.h"
#include "db/store.h"
#include "jobs/state.h"

enum { FINDINGS_MAX = 100, JOBS_MAX = 1 << 28 };

struct fate { /* of one job, as far as the log was read */
    enum job_state state;
    int32_t attempt, claims;
};

struct check {
    const char *dir;
    void (*each)(void *arg, const char *finding);
    void *arg;
    int n;
    struct fate *jobs; /* owned; by id */
    int64_t n_jobs;
};

static void find(struct check *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void find(struct check *c, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (c->n++ < FINDINGS_MAX)
        c->each(c->arg, text);
}

static int open_one(const struct check *c, struct db *d, const char *name,
                    struct error *err)
{
    char path[1024];
    int n = snprintf(path, sizeof(path), "%s/%s", c->dir, name);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(err, ERR_CONFIG, "'%s' is too long", c->dir);
    /* One moment for all that is read. */
    if (db_open(d, path, name, true, err) < 0)
        return -1;
    return db_exec(d, "BEGIN", err);
}

/* Every page, every row, every index. */
static int check_pages(struct check *c, const struct db *d, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d, "PRAGMA integrity_check(20)", &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *line = (const char *)sqlite3_column_text(st, 0);
        if (line && strcmp(line, "ok") != 0)
            find(c, "%s: %.300s", d->name, line);
    }
    if (rc != SQLITE_DONE)
        find(c, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

static void check_event(struct check *c, int64_t job, int32_t attempt,
                        int64_t seq, const char *name)
{
    struct error why = ERROR_INIT;
    enum job_event ev;
    enum job_state to;
    if (job < 1 || job >= c->n_jobs || !name ||
        job_event_from_name(name, &ev) < 0) {
        find(c, "event %" PRId64 ": '%.40s' of job %" PRId64 " is none", seq,
             name ? name : "NULL", job);
        return;
    }
    struct fate *f = &c->jobs[job];
    if (job_state_next(f->state, ev, &to, &why) < 0) {
        find(c, "job %" PRId64 ": event %" PRId64 ": %s", job, seq, why.msg);
        return;
    }
    f->state = to;
    if (ev == EV_INTENT) {
        if (attempt != f->attempt + 1)
            find(c,
                 "job %" PRId64 ": event %" PRId64 ": attempt %" PRId32
                 " follows %" PRId32,
                 job, seq, attempt, f->attempt);
        f->attempt = attempt;
        f->claims = 0;
    }
    f->claims += ev == EV_CLAIM;
    if (ev == EV_CLAIM && f->claims > 1)
        find(c,
             "job %" PRId64 ": event %" PRId64 ": attempt %" PRId32
             " is claimed twice",
             job, seq, attempt);
}

static int check_log(struct check *c, const struct db *d, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t last = 0;
    int rc;
    if (db_prepare(d, "SELECT seq, job, attempt, event FROM event ORDER BY seq",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t seq = sqlite3_column_int64(st, 0);
        if (seq != last + 1)
            find(c, "event %" PRId64 " follows %" PRId64, seq, last);
        last = seq;
        check_event(c, sqlite3_column_int64(st, 1), sqlite3_column_int(st, 2),
                    seq, (const char *)sqlite3_column_text(st, 3));
    }
    if (rc != SQLITE_DONE)
        find(c, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

static int check_rows(struct check *c, const struct db *d, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t seen = 0, known = 0;
    int rc;
    if (db_prepare(d, "SELECT job, state, attempt FROM job", &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        int64_t job = sqlite3_column_int64(st, 0);
        const char *state = (const char *)sqlite3_column_text(st, 1);
        const struct fate *f =
            job >= 1 && job < c->n_jobs ? &c->jobs[job] : NULL;
        seen++;
        if (!f || f->state == JOB_NEW)
            find(c, "job %" PRId64 " has a row, and no events", job);
        else if (!state || strcmp(state, job_state_name(f->state)) != 0 ||
                 sqlite3_column_int(st, 2) != f->attempt)
            find(c,
                 "job %" PRId64 ": its row says %.20s, attempt %d, its "
                 "events %s, attempt %" PRId32,
                 job, state ? state : "NULL", sqlite3_column_int(st, 2),
                 job_state_name(f->state), f->attempt);
    }
    if (rc != SQLITE_DONE)
        find(c, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    for (int64_t i = 1; i < c->n_jobs; i++)
        known += c->jobs[i].state != JOB_NEW;
    if (known != seen)
        find(c, "%" PRId64 " jobs have events, %" PRId64 " have rows", known,
             seen);
    return 0;
}

static int check_state(struct check *c, struct error *err)
{
    struct db d = {.h = NULL};
    int64_t last = 0;
    int rc = open_one(c, &d, "state.db", err);
    if (rc == 0)
        rc = schema_check(&d, &schema_state, err);
    if (rc == 0)
        rc = check_pages(c, &d, err);
    /* The rest of a file that is no tree any more is noise. */
    if (rc == 0 && c->n == 0) {
        rc = db_get_int(&d, "SELECT coalesce(max(job), 0) FROM event", &last,
                        err);
        if (rc == 0 && (last < 0 || last >= JOBS_MAX))
            rc = error_set(err, ERR_IO, "state.db: a job %" PRId64, last);
        c->n_jobs = last + 1;
        if (rc == 0 && !(c->jobs = calloc((size_t)last + 1, sizeof(*c->jobs))))
            rc = error_set(err, ERR_NOMEM, "check");
        if (rc == 0)
            rc = check_log(c, &d, err);
        if (rc == 0)
            rc = check_rows(c, &d, err);
    }
    free(c->jobs);
    db_close(&d);
    return rc;
}

static int check_metrics(struct check *c, struct error *err)
{
    struct db d = {.h = NULL};
    int rc = open_one(c, &d, "metrics.db", err);
    if (rc == 0)
        rc = schema_check(&d, &schema_metrics, err);
    if (rc == 0)
        rc = check_pages(c, &d, err);
    db_close(&d);
    return rc;
}

/* What does not even open is a finding of its own, and the other is looked
 * at all the same. */
int store_sqlite_check(const char *dir,
                       void (*each)(void *arg, const char *finding), void *arg)
{
    struct check c = {.dir = dir, .each = each, .arg = arg};
    struct error err = ERROR_INIT;
    if (check_state(&c, &err) < 0)
        find(&c, "%s", err.msg);
    err = (struct error)ERROR_INIT;
    if (check_metrics(&c, &err) < 0)
        find(&c, "%s", err.msg);
    return c.n;
}
