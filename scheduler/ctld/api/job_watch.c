/* job_watch.c - GET /v1/watch: changes of jobs, pushed.
 *
 * Nobody polls. A change marks its job; at most every PUSH_S the marked jobs
 * are encoded, each once however many watch it (twice when strangers do, who
 * see less), and sent. A watcher begins
 * with the jobs as they are now, so one that lost its connection misses
 * nothing by asking again; with ?after=SEQ it gets only those that an event
 * has changed since. An event of which the number was never given out, as by a
 * daemon whose state was restored since, says nothing: then it gets all. A
 * watcher that does not read is dropped by the HTTP server 1 MiB later.
 *
 * No turn of the loop works for longer than CTLD_SLICE_S: what is left goes
 * on in the next one, after whatever else is ready by then. Half of a turn is
 * for changes, the rest for beginnings, of which the one that was cut goes to
 * the end of the line: neither waits for the other, however much there is.
 *
 * When a job may start is told anew every STARTS_S where it has come to be
 * another, while somebody watches all; see start_estimates.c. Those are the
 * first of the queue, so that a long one costs no more.
 *
 * What no memory was there for is not left out: a line is tried again, and
 * where it is not known any more what was to be sent, all begin again.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/api/job_filter.h"
#include "scheduler/ctld/ctld_internal.h"

/* Between two pushes, and between two tries to go on with a beginning. */
static const double PUSH_S = 0.25, BEGIN_S = 0.05;
static const double STARTS_S = 5;
enum { BEHIND_MAX = 1 << 18 };

struct watcher {
    struct watcher *next;
    struct ctld *c;
    struct http_exchange *x;
    uint64_t job;   /* 0: all */
    uint64_t begun; /* the beginning was sent up to this id; UINT64_MAX: all */
    int64_t after;  /* the last event that it knows of; -1: none */
    int64_t uid;    /* who watches */
    struct ctld_filter f; /* its texts live as long as x */
};

static void unlink_watcher(struct watcher *w)
{
    for (struct watcher **p = &w->c->watchers; *p; p = &(*p)->next) {
        if (*p == w) {
            *p = w->next;
            break;
        }
    }
    free(w);
}

static void on_closed(void *arg)
{
    unlink_watcher(arg);
}

size_t ctld_n_watchers(const struct ctld *c)
{
    size_t n = 0;
    for (const struct watcher *w = c->watchers; w; w = w->next)
        n++;
    return n;
}

/* ---- which jobs -----------------------------------------------------------
 */

void ctld_changed(struct ctld *c, uint64_t job)
{
    if (!c->watchers || c->stopping)
        return;
    if (c->n_dirty == c->cap_dirty) {
        size_t cap = c->cap_dirty ? 2 * c->cap_dirty : 64;
        uint64_t *p = realloc(c->dirty, cap * sizeof(*p));
        if (!p) {
            c->lost_changes = true;
            loop_timer_set(c->watch_timer, PUSH_S);
            return;
        }
        c->dirty = p;
        c->cap_dirty = cap;
    }
    c->dirty[c->n_dirty++] = job;
    if (loop_timer_is_set(c->watch_timer))
        return;
    double now_s = c->parts.clock->now_s(c->parts.clock);
    loop_timer_set(c->watch_timer, fmin(c->watched_s + PUSH_S - now_s, PUSH_S));
}

/* So many of the newest jobs have a number of their own. */
enum { SEQS_MAX = 1 << 16 };

/* Room for this job; the oldest share one number. */
static bool reserve_seq(struct ctld *c, uint64_t job)
{
    if (job - c->seqs_from >= SEQS_MAX) {
        uint64_t less = job - c->seqs_from - SEQS_MAX / 2;
        uint64_t n = less < c->n_seqs ? less : c->n_seqs;
        for (uint64_t i = 0; i < n; i++)
            c->old_seq = c->seqs[i] > c->old_seq ? c->seqs[i] : c->old_seq;
        if (n > 0) {
            memmove(c->seqs, c->seqs + n, (c->n_seqs - n) * sizeof(*c->seqs));
            memset(c->seqs + c->n_seqs - n, 0, n * sizeof(*c->seqs));
        }
        c->seqs_from += less;
    }
    size_t at = (size_t)(job - c->seqs_from);
    if (at < c->n_seqs)
        return true;
    size_t n = at < 512 ? 1024 : at * 2;
    uint64_t *p = realloc(c->seqs, n * sizeof(*p));
    if (!p)
        return false;
    memset(p + c->n_seqs, 0, (n - c->n_seqs) * sizeof(*p));
    c->seqs = p;
    c->n_seqs = n;
    return true;
}

void ctld_saw_event(struct ctld *c, uint64_t job, uint64_t seq)
{
    c->last_seq = seq > c->last_seq ? seq : c->last_seq;
    if (job < c->seqs_from)
        c->old_seq = seq > c->old_seq ? seq : c->old_seq;
    else if (reserve_seq(c, job))
        c->seqs[job - c->seqs_from] = seq;
    else
        c->lost_seqs = true;
}

static uint64_t seq_of(const struct ctld *c, uint64_t job)
{
    uint64_t at = job - c->seqs_from, seq = 0;
    if (job < c->seqs_from)
        seq = c->old_seq;
    else if (at < c->n_seqs)
        seq = c->seqs[at];
    return seq > 0 ? seq : c->first_seq; /* at the latest */
}

static uint64_t last_seq(const struct ctld *c)
{
    return c->last_seq > c->first_seq ? c->last_seq : c->first_seq;
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ---- sending --------------------------------------------------------------
 */

/* One line, which the caller frees; NULL when out of memory. */
static char *line_of(const struct ctld *c, const struct job *job, bool all)
{
    struct buf line = BUF_INIT;
    char *ret = NULL;
    if (buf_addf(&line, NULL,
                 "{\"schema\":\"mgpu.job/1\",\"seq\":%" PRIu64 ",\"job\":",
                 seq_of(c, job->id)) == 0 &&
        ctld_add_job(c, job, all, CTLD_ALL_MEMBERS, &line, NULL) == 0 &&
        buf_addstr(&line, "}\n", NULL) == 0)
        ret = buf_detach(&line);
    buf_clear(&line);
    return ret;
}

/* False without memory; those who have had the line may get it again. */
static bool push(struct ctld *c, const struct job *job)
{
    char *lines[2] = {NULL, NULL}; /* for strangers, for who may see all */
    bool has_memory = true;
    bool final = job_state_is_final(job->state);
    for (struct watcher *w = c->watchers, *next; w; w = next) {
        next = w->next;
        if (w->job ? w->job != job->id : job->id > w->begun)
            continue;
        if (!ctld_filter_fits(c, &w->f, job))
            continue;
        bool all = engine_may(c->engine, job, w->uid);
        if (!lines[all] && !(lines[all] = line_of(c, job, all))) {
            has_memory = false;
            break;
        }
        http_stream_send(w->x, lines[all], strlen(lines[all]));
        if (w->job && final) {
            http_stream_end(w->x);
            unlink_watcher(w);
        }
    }
    free(lines[0]);
    free(lines[1]);
    return has_memory;
}

static bool knows(const struct watcher *w, const struct job *job)
{
    uint64_t seq = seq_of(w->c, job->id);
    return !w->c->lost_seqs && seq > 0 && w->after >= 0 &&
           seq <= (uint64_t)w->after &&
           !(w->job && job_state_is_final(job->state));
}

static double now_s(const struct ctld *c)
{
    return c->parts.clock->now_s(c->parts.clock);
}

static bool is_late(const struct ctld *c, double until_s)
{
    return now_s(c) > until_s;
}

/* Goes on with the beginning as far as the connection takes it now, and as
 * there is time. */
static void begin(struct watcher *w, double until_s)
{
    const struct engine *e = w->c->engine;
    const struct job *job = ctld_next_job(w->c, w->begun);
    for (; job && (!w->job || job->id == w->job);
         job = ctld_next_job(w->c, job->id)) {
        if (http_stream_behind(w->x) > BEHIND_MAX ||
            (!w->job && is_late(w->c, until_s)))
            return;
        bool has = knows(w, job) || !ctld_filter_fits(w->c, &w->f, job);
        char *line =
            has ? NULL : line_of(w->c, job, engine_may(e, job, w->uid));
        if (!has && !line)
            return;
        w->begun = job->id;
        if (line)
            http_stream_send(w->x, line, strlen(line));
        free(line);
    }
    w->begun = UINT64_MAX;
}

/* The marked jobs, each once, from where the last turn ended. False when
 * there was no time for all. */
static bool push_dirty(struct ctld *c, double until_s)
{
    size_t n = 0, first = 0;
    if (c->n_dirty > 0)
        qsort(c->dirty, c->n_dirty, sizeof(*c->dirty), by_id);
    for (size_t i = 0; i < c->n_dirty; i++) {
        if (n == 0 || c->dirty[i] != c->dirty[n - 1])
            c->dirty[n++] = c->dirty[i];
    }
    c->n_dirty = n;
    while (first < n && c->dirty[first] <= c->pushed)
        first++;
    for (size_t done = 0; done < n; done++) {
        size_t at = (first + done) % n;
        const struct job *job = ctld_find_or_log(c, c->dirty[at]);
        /* One that is changing is marked again with its fate: who waits for
         * an end goes by the first line that says so. */
        if (job && engine_settled(c->engine, job) == job && !push(c, job)) {
            loop_timer_set(c->watch_timer, PUSH_S);
            return true;
        }
        c->pushed = c->dirty[at];
        c->dirty[at] = 0; /* no job's number */
        if (is_late(c, until_s) && done + 1 < n)
            return false;
    }
    c->n_dirty = 0;
    return true;
}

/* What has changed is not known: everybody is shown all. */
static void begin_again(struct ctld *c)
{
    for (struct watcher *w = c->watchers; w; w = w->next) {
        w->begun = w->job ? w->job - 1 : 0;
        w->after = -1;
    }
    c->lost_changes = false;
}

/* Those up to this one go behind the others. */
static void move_behind(struct ctld *c, struct watcher *last)
{
    struct watcher *first = c->watchers, *end = last;
    if (!last->next)
        return;
    while (end->next)
        end = end->next;
    c->watchers = last->next;
    end->next = first;
    last->next = NULL;
}

/* True when there was no time for all of them. */
static bool go_on_beginning(struct ctld *c, double until_s)
{
    for (struct watcher *w = c->watchers; w; w = w->next) {
        if (w->begun == UINT64_MAX)
            continue;
        begin(w, until_s);
        if (w->begun != UINT64_MAX)
            loop_timer_set(c->watch_timer, BEGIN_S);
        if (is_late(c, until_s)) {
            move_behind(c, w);
            return true;
        }
    }
    return false;
}

static void on_push(void *arg)
{
    struct ctld *c = arg;
    c->watched_s = now_s(c);
    if (c->lost_changes)
        begin_again(c);
    bool is_rest = !push_dirty(c, c->watched_s + CTLD_SLICE_S / 2);
    is_rest = go_on_beginning(c, now_s(c) + CTLD_SLICE_S / 2) || is_rest;
    if (is_rest)
        loop_timer_set(c->watch_timer, 0);
}

static void on_starts(void *arg)
{
    struct ctld *c = arg;
    const struct watcher *w = c->watchers;
    while (w && w->job)
        w = w->next;
    if (!w || c->stopping)
        return; /* until the next who begins */
    ctld_forecast_tell(c);
    loop_timer_set(c->starts_timer, STARTS_S);
}

void serve_watch(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct error err;
    int64_t id = 0, after = 0;
    struct ctld_filter f;
    if (!ctld_admit(c, x) || !ctld_filter_parse(x, FILTER_OF_STREAM, &f) ||
        !ctld_query_int(x, "job", 1, INT64_MAX, 0, &id) ||
        !ctld_query_int(x, "after", 0, INT64_MAX, -1, &after))
        return;
    const struct job *job = id ? ctld_job_of(c, x, (uint64_t)id) : NULL;
    if (id && !job)
        return;
    struct watcher *w = calloc(1, sizeof(*w));
    if (!w) {
        (void)error_set(&err, ERR_NOMEM, "watcher");
        http_reply_err(x, &err);
        return;
    }
    *w = (struct watcher){.next = c->watchers,
                          .c = c,
                          .x = x,
                          .job = (uint64_t)id,
                          .begun = id ? (uint64_t)id - 1 : 0,
                          .after = (uint64_t)after > last_seq(c) ? -1 : after,
                          .uid = http_uid(x),
                          .f = f};
    c->watchers = w;
    http_stream_start(x, "application/jsonl", on_closed, w);
    begin(w, now_s(c) + CTLD_SLICE_S);
    if (w->begun != UINT64_MAX)
        loop_timer_set(c->watch_timer, BEGIN_S);
    if (!id && !loop_timer_is_set(c->starts_timer))
        loop_timer_set(c->starts_timer, STARTS_S);
    if (job && job_state_is_final(job->state)) {
        http_stream_end(x);
        unlink_watcher(w);
    }
}

int ctld_watch_init(struct ctld *c, struct error *err)
{
    if (loop_timer_create(c->loop, on_push, c, &c->watch_timer, err) < 0 ||
        loop_timer_create(c->loop, on_starts, c, &c->starts_timer, err) < 0)
        return -1;
    loop_source_name(c->watch_timer, "watchers");
    loop_source_name(c->starts_timer, "starts");
    return 0;
}

void ctld_watch_clear(struct ctld *c)
{
    for (struct watcher *w = c->watchers, *next; w; w = next) {
        next = w->next;
        http_stream_end(w->x);
        free(w);
    }
    c->watchers = NULL;
    loop_source_destroy(c->watch_timer);
    loop_source_destroy(c->starts_timer);
    c->watch_timer = c->starts_timer = NULL;
    free(c->dirty);
    free(c->seqs);
    c->dirty = c->seqs = NULL;
    c->n_dirty = c->cap_dirty = c->n_seqs = 0;
}
