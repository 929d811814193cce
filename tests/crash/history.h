/* history.h - what a daemon's clients were told, and whether its log keeps it.
 *
 * Clients write down each request, and each answer when one came. Between two
 * lives of the daemon the log is read and held against that:
 *   I1  who was told of a job, a cancel or an end finds it in the log
 *   I7  no event of a job is a stranger's, and a deed is in admin.log
 *   I8  at the end each job that was seen COMPLETED has its rows, each once
 *   F07 a backup is sound, and has what was told before it was asked for; no
 *       sweep is half in it, and what has COMPLETED there has its rows there
 * and against itself: store_sqlite_check() has I2 to I6. What is held against
 * the notes alone is in rules.h.
 */
#ifndef MGPU_TESTS_CRASH_HISTORY_H
#define MGPU_TESTS_CRASH_HISTORY_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/metric_store.h"
#include "jobs/base/buf.h"
#include "jobs/state.h"
#include "tests/crash/rules.h"

enum { JOBS_MAX = 4096, ROWS_PER_JOB = 3, TASKS = 3 };

struct asked { /* one request for a job, or for a sweep */
    char key[24];
    uint64_t id; /* acknowledged; 0: no answer came yet */
    bool is_held, is_sweep;
    bool cancel_told;
    enum job_state end; /* that somebody was shown; JOB_NEW: none */
};

struct kept { /* what had been told when the backup was asked for */
    bool is_there;
    struct asked jobs[JOBS_MAX];
    size_t n;
};

struct history {
    pthread_mutex_t lock;
    int64_t uid; /* the daemon's, and of all who may ask it */
    struct asked jobs[JOBS_MAX];
    size_t n;
    struct strange strange[STRANGERS_MAX];
    size_t n_strange;
    int told[DEED_N];
    struct conf_note conf[CONF_NOTES_MAX]; /* one thread's at a time */
    size_t n_conf;
    int version;      /* of the last file */
    struct life life; /* of the daemon that lives; own_s 0: it said nothing */
    bool was_ready;   /* a daemon of this state, so that all files are there */
    struct kept kept; /* the last backup of this life */
    int n_bad;
};

/* Of a new state; no other thread is at it. */
static inline void history_begin(struct history *h)
{
    h->n = h->n_strange = h->n_conf = 0;
    h->version = 0;
    h->was_ready = h->kept.is_there = false;
    memset(h->told, 0, sizeof(h->told));
}

static inline void bad(struct history *h, const char *rule, const char *what,
                       uint64_t job)
{
    h->n_bad++;
    (void)printf("  %s: %s: job %" PRIu64 "\n", rule, what, job);
}

/* What rules.h says, if anything. */
static inline void heed(struct history *h, const char *rule, const char *why,
                        size_t note)
{
    if (!why)
        return;
    h->n_bad++;
    (void)printf("  %s: %s: note %zu\n", rule, why, note);
}

static inline void note_conf(struct history *h, enum conf_did did, int version)
{
    if (h->n_conf < CONF_NOTES_MAX)
        h->conf[h->n_conf++] = (struct conf_note){did, version};
}

/* ---- the log ---------------------------------------------------------------
 */
struct told { /* by the log, of one job */
    enum job_state state;
    int32_t attempt;
    bool is_cancelled;
    int64_t owner;
    const char *wrong; /* of who did what; NULL: nothing */
    char key[24];
};

struct log {
    struct told *jobs; /* owned; by id */
    size_t n;
    int64_t uid; /* the daemon's */
};

static inline int log_event(void *arg, const struct store_event *ev,
                            struct error *err)
{
    struct log *l = arg;
    if (ev->job >= l->n) {
        size_t n = 2 * ev->job + 64;
        struct told *p = realloc(l->jobs, n * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "log");
        memset(p + l->n, 0, (n - l->n) * sizeof(*p));
        l->jobs = p;
        l->n = n;
    }
    struct told *t = &l->jobs[ev->job];
    if (job_state_next(t->state, ev->ev, &t->state, err) < 0)
        return -1;
    if (ev->ev == EV_SUBMIT)
        t->owner = ev->uid;
    if (!t->wrong)
        t->wrong = rule_event_uid(ev->uid, t->owner, l->uid);
    t->attempt = ev->attempt;
    t->is_cancelled = t->is_cancelled || ev->ev == EV_CANCEL;
    const char *key =
        ev->ev == EV_SUBMIT ? strstr(ev->detail, "\"key\":\"") : NULL;
    if (key)
        (void)snprintf(t->key, sizeof(t->key), "%.*s",
                       (int)strcspn(key + 7, "\""), key + 7);
    return 0;
}

static inline const struct told *told_of(const struct log *l, uint64_t id)
{
    static const struct told none = {.state = JOB_NEW};
    return id < l->n ? &l->jobs[id] : &none;
}

static inline void check_asked(struct history *h, const struct log *l,
                               const struct asked *a)
{
    const struct told *t = told_of(l, a->id);
    if (a->id == 0)
        return;
    if (t->state == JOB_NEW || strcmp(t->key, a->key) != 0)
        bad(h, "I1", "an acknowledged job is gone", a->id);
    if (a->cancel_told && !t->is_cancelled && !job_state_is_final(t->state))
        bad(h, "I1", "an acknowledged cancel is gone", a->id);
    if (a->end != JOB_NEW && a->end != t->state)
        bad(h, "I5", "an end that was shown is another", a->id);
}

static inline void on_finding(void *arg, const char *text)
{
    struct history *h = arg;
    h->n_bad++;
    (void)printf("  fsck: %s\n", text);
}

/* ---- rows ------------------------------------------------------------------
 */
struct rows {
    int64_t n, last;
};

static inline int see_row(void *arg, const struct store_cell *cells, size_t n,
                          struct error *err)
{
    struct rows *r = arg;
    (void)err;
    for (size_t i = 0; i < n; i++)
        if (strcmp(cells[i].name, "iteration") == 0)
            r->last = cells[i].i;
    r->n++;
    return 0;
}

static inline void check_job_rows(struct history *h, struct store *s,
                                  const struct log *l, const struct asked *a)
{
    const struct told *t = told_of(l, a->id);
    struct rows r = {.n = 0};
    struct error err = ERROR_INIT;
    struct store_query q = {.view = VIEW_ITERATION,
                            .job = a->id,
                            .attempt = t->attempt,
                            .rank = -1};
    if (a->is_held || a->is_sweep || t->state != JOB_COMPLETED)
        return;
    if (s->metrics->query(s, &q, see_row, &r, &err) < 0)
        bad(h, "I8", err.msg, a->id);
    else if (r.n != ROWS_PER_JOB || r.last != ROWS_PER_JOB)
        bad(h, "I8", "its rows are not there once each", a->id);
}

/* What ran wrote "job attempt" into a file. */
static inline void check_ran(struct history *h, const char *path)
{
    static uint64_t seen[JOBS_MAX * 4];
    char line[64];
    size_t n = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f) && n < JOBS_MAX * 4) {
        char *end = NULL;
        uint64_t job = strtoull(line, &end, 10);
        uint64_t one = job << 16 | strtoull(end, NULL, 10);
        for (size_t i = 0; i < n; i++)
            if (seen[i] == one)
                bad(h, "I3", "an attempt ran twice", job);
        seen[n++] = one;
    }
    if (f)
        (void)fclose(f);
}

/* ---- all of it -------------------------------------------------------------
 */
static inline void check_deeds(struct history *h, const char *dir)
{
    enum { LOG_MAX_BYTES = 16 << 20 };
    struct buf text = BUF_INIT;
    struct error err = ERROR_INIT;
    char at[256];
    (void)snprintf(at, sizeof(at), "%s/admin.log", dir);
    if (buf_read_file(&text, at, LOG_MAX_BYTES, &err) < 0 &&
        err.code != ERR_NOTFOUND)
        heed(h, "I7", err.msg, 0);
    heed(h, "I7", rule_deeds(buf_str(&text), h->told, h->uid), 0);
    buf_clear(&text);
}

static inline void check_notes(struct history *h)
{
    size_t at = 0;
    const char *why = rule_strangers(h->strange, h->n_strange, &at);
    heed(h, "I7", why, at);
    why = rule_conf(h->conf, h->n_conf, &at);
    heed(h, "I9", why, at);
}

/* h->jobs may know more by now: of them it has all or nothing. */
static inline void check_backup(struct history *h, const char *dir)
{
    struct store *s = NULL;
    struct log l = {.uid = h->uid};
    struct error err = ERROR_INIT;
    if (store_sqlite_check(dir, on_finding, h) > 0 ||
        store_sqlite_open(dir, &s, &err) < 0 ||
        s->ops->load(s, log_event, &l, &err) < 0)
        bad(h, "F07", err.msg, 0);
    for (size_t i = 0; s && i < h->kept.n; i++)
        check_asked(h, &l, &h->kept.jobs[i]);
    for (size_t i = 0; s && i < h->n; i++) {
        const struct asked *a = &h->jobs[i];
        for (uint64_t k = 1; a->id > 0 && a->is_sweep && k < TASKS; k++)
            if ((told_of(&l, a->id)->state == JOB_NEW) !=
                (told_of(&l, a->id + k)->state == JOB_NEW))
                bad(h, "F07", "half a sweep is in a backup", a->id);
        if (a->id > 0)
            check_job_rows(h, s, &l, a);
    }
    if (s)
        s->ops->destroy(s);
    free(l.jobs);
}

/* A daemon that died before it was ready for the first time may have made one
 * file and not the other: the next one makes up for it, as this does. */
static inline void finish_files(struct history *h, const char *dir)
{
    struct store *s = NULL;
    struct error err = ERROR_INIT;
    if (h->was_ready)
        return;
    if (store_sqlite_open(dir, &s, &err) < 0)
        bad(h, "F03", err.msg, 0);
    else
        s->ops->destroy(s);
}

/* No daemon runs. in  is_over  nothing is to run any more, and all jobs that
 * were acknowledged have ended. */
static inline void history_check(struct history *h, const char *dir,
                                 bool is_over)
{
    struct store *s = NULL;
    struct log l = {.uid = h->uid};
    struct error err = ERROR_INIT;
    check_notes(h);
    check_deeds(h, dir);
    finish_files(h, dir);
    (void)store_sqlite_check(dir, on_finding, h);
    if (store_sqlite_open(dir, &s, &err) < 0 ||
        s->ops->load(s, log_event, &l, &err) < 0)
        bad(h, "I1", err.msg, 0);
    for (size_t i = 0; s && i < h->n; i++) {
        check_asked(h, &l, &h->jobs[i]);
        if (is_over && h->jobs[i].id > 0 && h->jobs[i].id < l.n)
            check_job_rows(h, s, &l, &h->jobs[i]);
    }
    for (size_t i = 0; i < l.n; i++)
        if (l.jobs[i].wrong)
            bad(h, "I7", l.jobs[i].wrong, i);
    for (size_t i = 0; is_over && i < l.n; i++)
        if (l.jobs[i].state != JOB_NEW && !job_state_is_final(l.jobs[i].state))
            bad(h, "I1", "it has not ended", i);
    if (s)
        s->ops->destroy(s);
    free(l.jobs);
}

#endif
