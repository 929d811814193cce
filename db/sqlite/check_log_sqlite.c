/* check_log_sqlite.c - see check_log_sqlite.h; independent of the engine that
 * wrote the log. */
#include "db/sqlite/check_log_sqlite.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/state.h"

/* Ids increase by one, with gaps after a restore. */
enum { JOBS_MAX = 1 << 28, ID_STEP_MAX = 1 << 22 };

struct fate { /* one job, up to the event read last */
    enum job_state state;
    int32_t attempt, claims;
    bool is_damaged; /* the daemon quarantines it: its later events prove
                      * little */
};

struct hold { /* a GPU held by an attempt */
    char name[80];
    int64_t job;
    int64_t given_to, given_seq; /* given to another attempt before this
                                  * one's end; 0: no */
};

struct missing {                /* events */
    int64_t jobs, n, sum, last; /* sum: of the missing numbers */
};

struct check {
    struct findings *f;
    struct fate *jobs; /* owned; by id */
    int64_t n_jobs;
    struct hold *holds; /* owned */
    size_t n_holds, cap_holds;
    struct missing removed, missing; /* by the table `removed`; in the log */
};

/* ---- I4: holders of GPUs ---------------------------------------------------
 *
 * The end of an attempt is recorded after the last of its rows are stored, and
 * its GPUs may be another attempt's by then. So it is an error only if an event
 * shows that the attempt lived on. */
static void let_go(struct check *c, int64_t job)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_holds; i++)
        if (c->holds[i].job != job)
            c->holds[n++] = c->holds[i];
    c->n_holds = n;
}

static int take_one(struct check *c, int64_t job, int64_t seq, const char *node,
                    int node_len, const char *gpu, int gpu_len,
                    struct error *err)
{
    struct hold h = {.job = job};
    int n = snprintf(h.name, sizeof(h.name), "%.*s:%.*s", node_len, node,
                     gpu_len, gpu);
    if (n < 0 || (size_t)n >= sizeof(h.name))
        return 0;
    for (size_t i = 0; i < c->n_holds; i++)
        if (strcmp(c->holds[i].name, h.name) == 0 && c->holds[i].job != job) {
            c->holds[i].given_to = job;
            c->holds[i].given_seq = seq;
        }
    if (c->n_holds == c->cap_holds) {
        size_t cap = c->cap_holds > 0 ? 2 * c->cap_holds : 64;
        struct hold *p = realloc(c->holds, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "check");
        c->holds = p;
        c->cap_holds = cap;
    }
    c->holds[c->n_holds++] = h;
    return 0;
}

static void check_alive(const struct check *c, int64_t job, int64_t seq)
{
    for (size_t i = 0; i < c->n_holds; i++) {
        const struct hold *h = &c->holds[i];
        if (h->job == job && h->given_to > 0)
            check_finding(c->f,
                          "I4: event %" PRId64 ": job %" PRId64
                          " still uses GPU %s, "
                          "which event %" PRId64 " allocated to job %" PRId64,
                          seq, job, h->name, h->given_seq, h->given_to);
    }
}

/* "n1:0,1 n2:0"; a node without indexes names no GPU. */
static int take_place(struct check *c, int64_t job, int64_t seq,
                      const char *place, struct error *err)
{
    let_go(c, job);
    for (const char *p = place ? place : ""; *p; p += strspn(p, " ")) {
        int word = (int)strcspn(p, " "), node = (int)strcspn(p, ": ");
        const char *g = p + node + (node < word);
        while (g < p + word) {
            int len = (int)strcspn(g, ", ");
            if (take_one(c, job, seq, p, node, g, len, err) < 0)
                return -1;
            g += len + (g[len] == ',');
        }
        p += word;
    }
    return 0;
}

/* ---- the events ------------------------------------------------------------
 */
struct event {
    int64_t seq, job;
    int32_t attempt;
    const char *name, *place;
    bool is_readable; /* its detail is */
};

static void check_attempt(struct check *c, struct fate *f,
                          const struct event *e, enum job_event ev)
{
    int32_t want = f->attempt + job_event_begins(ev);
    if (e->attempt != want)
        check_finding(c->f,
                      "I3: job %" PRId64 ": event %" PRId64 ": attempt %" PRId32
                      " follows %" PRId32,
                      e->job, e->seq, e->attempt, f->attempt);
    f->is_damaged = f->is_damaged || e->attempt != want;
    if (job_event_begins(ev)) {
        f->attempt = e->attempt;
        f->claims = 0;
    }
    f->claims += ev == EV_CLAIM;
    if (ev == EV_CLAIM && f->claims > 1)
        check_finding(c->f,
                      "I3: job %" PRId64 ": event %" PRId64 ": attempt %" PRId32
                      " is claimed twice",
                      e->job, e->seq, e->attempt);
}

static int check_event(struct check *c, const struct event *e,
                       struct error *err)
{
    struct error why = ERROR_INIT;
    enum job_event ev;
    enum job_state to;
    if (e->job < 1 || e->job >= c->n_jobs) {
        check_finding(c->f,
                      "event %" PRId64 " is of job %" PRId64 ", which is none",
                      e->seq, e->job);
        return 0;
    }
    struct fate *f = &c->jobs[e->job];
    if (!e->name || job_event_from_name(e->name, &ev) < 0) {
        check_finding(c->f,
                      "event %" PRId64 ": '%.40s' of job %" PRId64 " is none",
                      e->seq, e->name ? e->name : "NULL", e->job);
        f->is_damaged = true;
        return 0;
    }
    if (!e->is_readable) {
        check_finding(c->f,
                      "job %" PRId64 ": event %" PRId64
                      ": the detail of its %s is "
                      "damaged",
                      e->job, e->seq, e->name);
        f->is_damaged = true;
    }
    if (job_state_next(f->state, ev, &to, &why) < 0) {
        /* Events after damage need not be consistent. */
        if (!f->is_damaged)
            check_finding(c->f, "%s: job %" PRId64 ": event %" PRId64 ": %s",
                          job_state_is_final(f->state) ? "I5" : "I6", e->job,
                          e->seq, why.msg);
        f->is_damaged = true;
        return 0;
    }
    f->state = to;
    check_attempt(c, f, e, ev);
    if (!job_state_is_live(to))
        let_go(c, e->job);
    if (ev == EV_CLAIM || ev == EV_RUN || ev == EV_STALL)
        check_alive(c, e->job, e->seq);
    return ev == EV_GRANT ? take_place(c, e->job, e->seq, e->place, err) : 0;
}

/* A submit's detail has the job's spec, an intent's its GPUs. */
static const char events[] =
    "SELECT seq, job, attempt, event,"
    " CASE WHEN detail IS NULL THEN event NOT IN ('submit', 'intent', 'claim')"
    "  WHEN NOT json_valid(detail) THEN 0"
    "  WHEN event = 'submit' THEN json_type(detail, '$.spec') = 'object'"
    "   AND json_type(detail, '$.user') = 'text'"
    "   AND json_type(detail, '$.key') = 'text'"
    "  WHEN event = 'intent' THEN json_type(detail, '$.nodes') = 'integer'"
    "  WHEN event = 'claim' THEN json_type(detail, '$.holder') = 'text'"
    "  ELSE 1 END,"
    " CASE WHEN event = 'grant' AND json_valid(detail)"
    "  THEN json_extract(detail, '$.place') END"
    " FROM event ORDER BY seq";

/* Counts the events missing between two consecutive ones. */
static void miss(struct check *c, int64_t last, int64_t next)
{
    int64_t n = next - last - 1;
    if (n <= 0)
        return;
    c->missing.n += n;
    c->missing.sum += n * last + n * (n + 1) / 2;
}

/* Only the events of removed jobs may be missing. */
static void check_missing(struct check *c, int64_t last)
{
    if (c->removed.n == 0)
        return;
    miss(c, last, c->removed.last + 1);
    if (c->missing.n != c->removed.n || c->missing.sum != c->removed.sum)
        check_finding(c->f,
                      "I1: %" PRId64 " events are missing, and %" PRId64
                      " went with removed jobs%s",
                      c->missing.n, c->removed.n,
                      c->missing.n == c->removed.n ? ": others" : "");
}

static int check_events(struct check *c, const struct db *d, struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t last = 0;
    int rc, failed = 0;
    if (db_prepare(d, events, &st, err) < 0)
        return -1;
    while (failed == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct event e = {
            .seq = sqlite3_column_int64(st, 0),
            .job = sqlite3_column_int64(st, 1),
            .attempt = sqlite3_column_int(st, 2),
            .name = (const char *)sqlite3_column_text(st, 3),
            .is_readable = sqlite3_column_int(st, 4) != 0,
            .place = (const char *)sqlite3_column_text(st, 5),
        };
        if (e.seq != last + 1 && c->removed.n == 0)
            check_finding(c->f, "event %" PRId64 " follows %" PRId64, e.seq,
                          last);
        miss(c, last, e.seq);
        last = e.seq;
        failed = check_event(c, &e, err);
    }
    if (failed == 0 && rc != SQLITE_DONE)
        check_finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    if (failed == 0)
        check_missing(c, last);
    return failed;
}

/* ---- I2, and the rows -------------------------------------------------------
 */
/* The tasks of a sweep have the key of the first one. */
static int check_keys(const struct check *c, const struct db *d,
                      struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d,
                   "SELECT uid, json_extract(detail, '$.key') AS key,"
                   " min(job), max(job) FROM event"
                   " WHERE event = 'submit' AND json_valid(detail) AND"
                   " coalesce(json_extract(detail, '$.sweep.task'), 0) = 0"
                   " GROUP BY uid, key HAVING count(*) > 1",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *key = (const char *)sqlite3_column_text(st, 1);
        check_finding(
            c->f,
            "I2: the key '%.64s' of uid %lld has created job %lld and job "
            "%lld",
            key ? key : "", (long long)sqlite3_column_int64(st, 0),
            (long long)sqlite3_column_int64(st, 2),
            (long long)sqlite3_column_int64(st, 3));
    }
    if (rc != SQLITE_DONE)
        check_finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

static void check_row(const struct check *c, int64_t job, const char *state,
                      int attempt, const char *reason)
{
    const struct fate *f = job >= 1 && job < c->n_jobs ? &c->jobs[job] : NULL;
    if (!f || f->state == JOB_NEW) {
        if (!f || !f->is_damaged)
            check_finding(c->f, "I6: job %" PRId64 " has a row but no events",
                          job);
        return;
    }
    if (reason && strncmp(reason, "Held(corrupt)", 13) == 0 &&
        strcmp(state, "HELD") == 0) {
        check_finding(c->f, "job %" PRId64 " is held as corrupt: %.200s", job,
                      reason);
        return;
    }
    if (!f->is_damaged &&
        (strcmp(state, job_state_name(f->state)) != 0 || attempt != f->attempt))
        check_finding(
            c->f,
            "I6: job %" PRId64 ": its row says %.20s, attempt %d, its "
            "events %s, attempt %" PRId32,
            job, state, attempt, job_state_name(f->state), f->attempt);
}

static int check_rows(const struct check *c, const struct db *d,
                      struct error *err)
{
    sqlite3_stmt *st = NULL;
    int64_t seen = 0, known = 0;
    int rc;
    if (db_prepare(d, "SELECT job, state, attempt, reason FROM job", &st, err) <
        0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
        const char *state = (const char *)sqlite3_column_text(st, 1);
        check_row(c, sqlite3_column_int64(st, 0), state ? state : "NULL",
                  sqlite3_column_int(st, 2),
                  (const char *)sqlite3_column_text(st, 3));
        seen++;
    }
    if (rc != SQLITE_DONE)
        check_finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    for (int64_t i = 1; i < c->n_jobs; i++)
        known += c->jobs[i].state != JOB_NEW || c->jobs[i].is_damaged;
    if (known != seen)
        check_finding(c->f,
                      "I6: %" PRId64 " jobs have events, %" PRId64 " have rows",
                      known, seen);
    return 0;
}

/* ---- the archive -----------------------------------------------------------
 */
static void check_one_archived(const struct check *c, int64_t job,
                               const char *state, bool is_as_row)
{
    const struct fate *f = job >= 1 && job < c->n_jobs ? &c->jobs[job] : NULL;
    const char *is = f && f->state != JOB_NEW ? job_state_name(f->state) : NULL;

    if (!is)
        check_finding(c->f, "I6: job %" PRId64 " is archived but has no events",
                      job);
    else if (!f->is_damaged && !job_state_is_final(f->state))
        check_finding(c->f,
                      "I6: job %" PRId64 " is archived, but %s by its events",
                      job, is);
    else if (!f->is_damaged && strcmp(is, state) != 0)
        check_finding(c->f,
                      "I6: job %" PRId64 " is archived as %.20s, by its events "
                      "%s",
                      job, state, is);
    else if (!is_as_row)
        check_finding(
            c->f, "I6: job %" PRId64 ": the archive and its row disagree", job);
}

static int check_archive(const struct check *c, const struct db *d,
                         struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (db_prepare(d,
                   "SELECT a.job, a.state, j.job IS NOT NULL"
                   " AND j.state IS a.state AND j.uid IS a.uid"
                   " AND j.ended_at IS a.ended_at"
                   " AND (a.key IS NULL OR a.key IS j.idempotency_key)"
                   " FROM archived AS a LEFT JOIN job AS j ON j.job = a.job",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        check_one_archived(c, sqlite3_column_int64(st, 0),
                           (const char *)sqlite3_column_text(st, 1),
                           sqlite3_column_int(st, 2) != 0);
    if (rc != SQLITE_DONE)
        check_finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

/* ---- removed jobs ----------------------------------------------------------
 */
static int find_removed(struct check *c, const struct db *d, struct error *err)
{
    struct missing *m = &c->removed;
    if (db_get_int(d, "SELECT count(*) FROM removed", &m->jobs, err) < 0 ||
        db_get_int(d, "SELECT coalesce(sum(events), 0) FROM removed", &m->n,
                   err) < 0 ||
        db_get_int(d, "SELECT coalesce(sum(seqs), 0) FROM removed", &m->sum,
                   err) < 0)
        return -1;
    return db_get_int(d, "SELECT coalesce(max(last), 0) FROM removed", &m->last,
                      err);
}

static int check_removed(const struct check *c, const struct db *d,
                         struct error *err)
{
    sqlite3_stmt *st = NULL;
    int rc;
    if (c->removed.jobs == 0)
        return 0;
    if (db_prepare(d,
                   "SELECT job FROM removed AS r"
                   " WHERE EXISTS (SELECT 1 FROM event WHERE job = r.job)"
                   " OR EXISTS (SELECT 1 FROM job WHERE job = r.job)"
                   " OR EXISTS (SELECT 1 FROM attempt WHERE job = r.job)"
                   " OR EXISTS (SELECT 1 FROM archived WHERE job = r.job)",
                   &st, err) < 0)
        return -1;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW)
        check_finding(c->f, "I6: job %lld was removed, but not all of it",
                      (long long)sqlite3_column_int64(st, 0));
    if (rc != SQLITE_DONE)
        check_finding(c->f, "%s: %s", d->name, sqlite3_errmsg(d->h));
    sqlite3_finalize(st);
    return 0;
}

/* Counts the ids that may be jobs; much higher ones are not. */
static int count_jobs(struct check *c, const struct db *d, struct error *err)
{
    char sql[200];
    int64_t n, last;
    if (db_get_int(d, "SELECT count(*) FROM event WHERE event = 'submit'", &n,
                   err) < 0)
        return -1;
    n += c->removed.jobs;
    (void)snprintf(sql, sizeof(sql),
                   "SELECT coalesce(max(job), 0) FROM event WHERE job < %lld",
                   (long long)(n > JOBS_MAX ? JOBS_MAX : n + ID_STEP_MAX));
    if (db_get_int(d, sql, &last, err) < 0)
        return -1;
    c->n_jobs = last > 0 ? last + 1 : 1;
    c->jobs = calloc((size_t)c->n_jobs, sizeof(*c->jobs));
    return c->jobs ? 0 : error_set(err, ERR_NOMEM, "check");
}

int check_log(struct findings *f, const struct db *d, struct error *err)
{
    struct check c = {.f = f};
    int rc = find_removed(&c, d, err);
    if (rc == 0)
        rc = count_jobs(&c, d, err);
    if (rc == 0)
        rc = check_events(&c, d, err);
    if (rc == 0)
        rc = check_keys(&c, d, err);
    if (rc == 0)
        rc = check_rows(&c, d, err);
    if (rc == 0)
        rc = check_archive(&c, d, err);
    if (rc == 0)
        rc = check_removed(&c, d, err);
    free(c.jobs);
    free(c.holds);
    return rc;
}
