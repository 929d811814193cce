/* job_watch.c - GET /v1/watch: push changes of jobs.
 *
 * A change marks its job. At most every PUSH_S the daemon encodes the marked
 * jobs and sends them: each once, however many watch it, and once more for
 * watchers who may not see all of it. A stream begins with the jobs as they
 * are now, so a client that lost its connection misses nothing when it asks
 * again. With ?after=SEQ it gets only the jobs that have changed since that
 * event. If the daemon has never assigned that number, for example because its
 * state was restored, the client gets all jobs. The HTTP server drops a client
 * that does not read, 1 MiB later.
 *
 * With ?cursor= marks (watch_line_mark()) follow the beginning and all changes.
 * A client that comes back with the last cursor gets what has changed since.
 *
 * A stream of all jobs shares the encoded text of its beginning with others of
 * the same viewer for up to BLOCKS_S (watch_blocks.h): a thousand clients that
 * come at once cost one encoding, and one copy in memory.
 *
 * No turn of the loop works for longer than CTLD_SLICE_S. The rest follows in
 * the next turn, after whatever else is ready by then. Half of a turn is for
 * changes, the other half for beginnings of streams; a stream whose beginning
 * was cut goes to the end of the list. So neither waits for the other, however
 * much there is.
 *
 * Every STARTS_S the daemon sends jobs whose estimated start has changed, while
 * somebody watches all jobs; see start_estimates.c. These are the first jobs of
 * the queue, so a long queue costs no more.
 *
 * Nothing is left out for want of memory: the daemon sends a line again later,
 * and when it has lost the list of changed jobs all streams begin again.
 */
#include "scheduler/ctld/job_list/job_watch.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/job_list/start_estimates.h"
#include "scheduler/ctld/job_list/watch_blocks.h"
#include "scheduler/ctld/job_list/watch_line.h"
#include "scheduler/ctld/job_list/watch_past.h"
#include "scheduler/ctld/request/auth.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/ctld/request/reply.h"

/* Between two pushes, and between two tries to go on with a beginning. */
static const double PUSH_S = 0.25, BEGIN_S = 0.05;
static const double STARTS_S = 5;
/* A line has figures that change without an event, such as its position. */
static const double BLOCKS_S = 1;
enum { BEHIND_MAX = 1 << 18 };

struct watcher {
    struct watcher *next;
    struct job_watch *all;
    struct http_exchange *x;
    uint64_t job;   /* 0: all */
    uint64_t begun; /* the beginning was sent up to this id; UINT64_MAX: all */
    struct watch_known known;
    bool is_marked;
    int64_t mark; /* it has all changes up to this one, when it has begun */
    int64_t uid;  /* of the client */
    struct job_filter f; /* its texts live as long as x */
};

struct job_watch {
    struct ctld *c;
    struct watcher *watchers;
    struct loop_source *timer, *starts_timer, *blocks_timer;
    struct watch_blocks blocks;
    uint64_t *dirty, pushed; /* ids of the changed jobs, and the last sent */
    size_t n_dirty, cap_dirty;
    struct watch_past past;
    double pushed_s;   /* when changes were last sent */
    bool lost_changes; /* for want of memory */
};

static void unlink_watcher(struct watcher *w)
{
    for (struct watcher **p = &w->all->watchers; *p; p = &(*p)->next) {
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

size_t job_watch_count(const struct ctld *c)
{
    size_t n = 0;
    for (const struct watcher *w = c->job_watch->watchers; w; w = w->next)
        n++;
    return n;
}

/* ---- which jobs -----------------------------------------------------------
 */

void job_watch_changed(struct ctld *c, uint64_t job)
{
    struct job_watch *jw = c->job_watch;
    watch_blocks_changed(&jw->blocks, job);
    watch_past_changed(&jw->past, job);
    if (!jw->watchers || c->stopping)
        return;
    if (jw->n_dirty == jw->cap_dirty) {
        size_t cap = jw->cap_dirty ? 2 * jw->cap_dirty : 64;
        uint64_t *p = realloc(jw->dirty, cap * sizeof(*p));
        if (!p) {
            jw->lost_changes = true;
            loop_timer_set(jw->timer, PUSH_S);
            return;
        }
        jw->dirty = p;
        jw->cap_dirty = cap;
    }
    jw->dirty[jw->n_dirty++] = job;
    if (loop_timer_is_set(jw->timer))
        return;
    double now_s = c->parts.clock->now_s(c->parts.clock);
    loop_timer_set(jw->timer, fmin(jw->pushed_s + PUSH_S - now_s, PUSH_S));
}

void job_watch_saw_event(struct ctld *c, uint64_t job, uint64_t seq)
{
    watch_blocks_changed(&c->job_watch->blocks, job);
    watch_past_saw_event(&c->job_watch->past, job, seq);
}

void job_watch_leaves(struct ctld *c, uint64_t job)
{
    watch_past_leaves(&c->job_watch->past, job);
}

static int by_id(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* ---- sending --------------------------------------------------------------
 */

/* False without memory; then some watchers may get the line twice. */
static bool push(struct job_watch *jw, const struct job *job)
{
    char *lines[2] = {NULL, NULL}; /* [1]: for users who may see all */
    bool has_memory = true;
    bool final = job_state_is_final(job->state);
    for (struct watcher *w = jw->watchers, *next; w; w = next) {
        next = w->next;
        if (w->job ? w->job != job->id : job->id > w->begun)
            continue;
        if (!job_filter_fits(jw->c, &w->f, job))
            continue;
        bool all = engine_may(jw->c->engine, job, w->uid);
        if (!lines[all] &&
            !(lines[all] = watch_line_job(jw->c, &jw->past, job, all))) {
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

static void send_mark(struct watcher *w, bool is_whole)
{
    char line[WATCH_MARK_CAP];
    size_t n = watch_line_mark(&w->all->past, w->mark, is_whole, line);
    http_stream_send(w->x, line, n);
}

/* All changes until now were sent. */
static void mark_pushed(struct job_watch *jw)
{
    int64_t now = watch_past_now(&jw->past);
    for (struct watcher *w = jw->watchers; w; w = w->next) {
        if (w->is_marked && w->begun == UINT64_MAX && w->mark != now) {
            w->mark = now;
            send_mark(w, false);
        }
    }
}

static bool is_whole(const struct watcher *w)
{
    return w->known.seq < 0 && w->known.change < 0;
}

static bool knows(const struct watcher *w, const struct job *job)
{
    return watch_past_knows(&w->all->past, w->known, job->id) &&
           !(w->job && job_state_is_final(job->state));
}

static double now_s(const struct job_watch *jw)
{
    const struct clock *clock = jw->c->parts.clock;
    return clock->now_s(clock);
}

static bool is_late(const struct job_watch *jw, double until_s)
{
    return now_s(jw) > until_s;
}

/* ---- the beginning, shared ------------------------------------------------
 */

/* An administrator sees all of every job, a user all of his own. */
static int64_t viewer_of(const struct watcher *w)
{
    return engine_is_admin(w->all->c->engine, w->uid) ? -1 : w->uid;
}

static const struct watch_block *make_block(const struct watcher *w)
{
    struct job_watch *jw = w->all;
    struct buf text = BUF_INIT;
    struct watch_block block = {
        .after = w->begun, .last = UINT64_MAX, .viewer = viewer_of(w)};
    if (!watch_line_add_jobs(jw->c, &jw->past, w->begun, WATCH_BLOCK_JOBS,
                             w->uid, &text, &block.last)) {
        buf_clear(&text);
        return NULL;
    }
    size_t len = text.len;
    block.text = http_shared_create(buf_detach(&text), len);
    if (!loop_timer_is_set(jw->blocks_timer))
        loop_timer_set(jw->blocks_timer, BLOCKS_S);
    return block.text ? watch_blocks_add(&jw->blocks, &block) : NULL;
}

static void begin_shared(struct watcher *w, double until_s)
{
    struct job_watch *jw = w->all;
    while (w->begun != UINT64_MAX) {
        if (http_stream_behind(w->x) > BEHIND_MAX || is_late(jw, until_s))
            return;
        const struct watch_block *b =
            watch_blocks_find(&jw->blocks, w->begun, viewer_of(w));
        if (!b)
            b = make_block(w);
        if (!b)
            return;
        w->begun = b->last;
        http_stream_send_shared(w->x, b->text);
    }
}

static void on_blocks(void *arg)
{
    watch_blocks_clear(&((struct job_watch *)arg)->blocks);
}

static void begin_own(struct watcher *w, double until_s)
{
    struct job_watch *jw = w->all;
    const struct job *job = ctld_job_next(jw->c, w->begun);
    for (; job && (!w->job || job->id == w->job);
         job = ctld_job_next(jw->c, job->id)) {
        if (http_stream_behind(w->x) > BEHIND_MAX ||
            (!w->job && is_late(jw, until_s)))
            return;
        bool has = knows(w, job) || !job_filter_fits(jw->c, &w->f, job);
        bool all = engine_may(jw->c->engine, job, w->uid);
        char *line = NULL;
        if (!has && !(line = watch_line_job(jw->c, &jw->past, job, all)))
            return;
        w->begun = job->id;
        if (line)
            http_stream_send(w->x, line, strlen(line));
        free(line);
    }
    w->begun = UINT64_MAX;
}

/* Sends more of the beginning: as much as the connection takes, and as there is
 * time. */
static void begin(struct watcher *w, double until_s)
{
    if (!w->job && is_whole(w) && job_filter_is_any(&w->f))
        begin_shared(w, until_s);
    else
        begin_own(w, until_s);
    if (w->begun == UINT64_MAX && w->is_marked)
        send_mark(w, is_whole(w));
}

/* Sends the marked jobs, each once, from where the last turn ended. False when
 * there was no time for all. */
static bool push_dirty(struct job_watch *jw, double until_s)
{
    size_t n = 0, first = 0;
    if (jw->n_dirty > 0)
        qsort(jw->dirty, jw->n_dirty, sizeof(*jw->dirty), by_id);
    for (size_t i = 0; i < jw->n_dirty; i++) {
        if (n == 0 || jw->dirty[i] != jw->dirty[n - 1])
            jw->dirty[n++] = jw->dirty[i];
    }
    jw->n_dirty = n;
    while (first < n && jw->dirty[first] <= jw->pushed)
        first++;
    for (size_t done = 0; done < n; done++) {
        size_t at = (first + done) % n;
        const struct job *job = ctld_job_find_or_log(jw->c, jw->dirty[at]);
        /* A job whose change is not durable is marked again when it is: a
         * client that waits for the end takes the first line that says so. */
        if (job && engine_settled(jw->c->engine, job) == job &&
            !push(jw, job)) {
            loop_timer_set(jw->timer, PUSH_S);
            return true;
        }
        jw->pushed = jw->dirty[at];
        jw->dirty[at] = 0; /* the id of no job */
        if (is_late(jw, until_s) && done + 1 < n)
            return false;
    }
    jw->n_dirty = 0;
    mark_pushed(jw);
    return true;
}

/* The list of changed jobs is lost: all streams begin again. */
static void begin_again(struct job_watch *jw)
{
    for (struct watcher *w = jw->watchers; w; w = w->next) {
        w->begun = w->job ? w->job - 1 : 0;
        w->known = (struct watch_known){.seq = -1, .change = -1};
        w->mark = watch_past_now(&jw->past);
    }
    jw->lost_changes = false;
}

/* Moves the watchers up to this one behind the others. */
static void move_behind(struct job_watch *jw, struct watcher *last)
{
    struct watcher *first = jw->watchers, *end = last;
    if (!last->next)
        return;
    while (end->next)
        end = end->next;
    jw->watchers = last->next;
    end->next = first;
    last->next = NULL;
}

/* True when there was no time for all of them. */
static bool go_on_beginning(struct job_watch *jw, double until_s)
{
    for (struct watcher *w = jw->watchers; w; w = w->next) {
        if (w->begun == UINT64_MAX)
            continue;
        begin(w, until_s);
        if (w->begun != UINT64_MAX)
            loop_timer_set(jw->timer, BEGIN_S);
        if (is_late(jw, until_s)) {
            move_behind(jw, w);
            return true;
        }
    }
    return false;
}

static void on_push(void *arg)
{
    struct job_watch *jw = arg;
    jw->pushed_s = now_s(jw);
    if (jw->lost_changes)
        begin_again(jw);
    bool is_rest = !push_dirty(jw, jw->pushed_s + CTLD_SLICE_S / 2);
    is_rest = go_on_beginning(jw, now_s(jw) + CTLD_SLICE_S / 2) || is_rest;
    if (is_rest)
        loop_timer_set(jw->timer, 0);
}

static void on_starts(void *arg)
{
    struct job_watch *jw = arg;
    const struct watcher *w = jw->watchers;
    while (w && w->job)
        w = w->next;
    if (!w || jw->c->stopping)
        return; /* until the next stream of all jobs begins */
    start_estimates_push(jw->c, job_watch_changed);
    loop_timer_set(jw->starts_timer, STARTS_S);
}

void serve_watch(void *arg, struct http_exchange *x)
{
    struct ctld *c = arg;
    struct job_watch *jw = c->job_watch;
    struct error err = ERROR_INIT;
    int64_t id = 0, after = 0;
    struct job_filter f;
    struct watch_known known;
    const char *cursor = http_query(x, "cursor");
    if (!ctld_admit(c, x) || !job_filter_parse(x, FILTER_OF_STREAM, &f) ||
        !ctld_query_int(x, "job", 1, INT64_MAX, 0, &id) ||
        !ctld_query_int(x, "after", 0, INT64_MAX, -1, &after))
        return;
    const struct job *job = id ? ctld_job_of(c, x, (uint64_t)id) : NULL;
    if (id && !job)
        return;
    jw->past.first_seq = c->first_seq; /* the engine is made after jw */
    int rc = watch_past_known(&jw->past, after, cursor, &known, &err);
    struct watcher *w = rc == 0 ? calloc(1, sizeof(*w)) : NULL;
    if (!w) {
        if (rc == 0)
            (void)error_set(&err, ERR_NOMEM, "watcher");
        http_reply_err(x, &err);
        return;
    }
    *w = (struct watcher){.next = jw->watchers,
                          .all = jw,
                          .x = x,
                          .job = (uint64_t)id,
                          .begun = id ? (uint64_t)id - 1 : 0,
                          .known = known,
                          .is_marked = cursor != NULL,
                          .mark = watch_past_now(&jw->past),
                          .uid = http_uid(x),
                          .f = f};
    jw->watchers = w;
    http_stream_start(x, "application/jsonl", on_closed, w);
    begin(w, now_s(jw) + CTLD_SLICE_S);
    if (w->begun != UINT64_MAX)
        loop_timer_set(jw->timer, BEGIN_S);
    if (!id && !loop_timer_is_set(jw->starts_timer))
        loop_timer_set(jw->starts_timer, STARTS_S);
    if (job && job_state_is_final(job->state)) {
        http_stream_end(x);
        unlink_watcher(w);
    }
}

int job_watch_init(struct ctld *c, struct error *err)
{
    struct job_watch *jw = c->job_watch = calloc(1, sizeof(*jw));
    if (!jw)
        return error_set(err, ERR_NOMEM, "watchers");
    jw->c = c;
    jw->past.life = (uint64_t)llround(c->started_wall_s * 1e6);
    if (loop_timer_create(c->loop, on_push, jw, &jw->timer, err) < 0 ||
        loop_timer_create(c->loop, on_starts, jw, &jw->starts_timer, err) < 0 ||
        loop_timer_create(c->loop, on_blocks, jw, &jw->blocks_timer, err) < 0)
        return -1;
    loop_source_name(jw->timer, "watchers");
    loop_source_name(jw->starts_timer, "starts");
    loop_source_name(jw->blocks_timer, "watchers' blocks");
    return 0;
}

void job_watch_end(struct ctld *c)
{
    struct job_watch *jw = c->job_watch;
    for (struct watcher *w = jw->watchers, *next; w; w = next) {
        next = w->next;
        http_stream_end(w->x);
        free(w);
    }
    jw->watchers = NULL;
    loop_source_destroy(jw->timer);
    loop_source_destroy(jw->starts_timer);
    loop_source_destroy(jw->blocks_timer);
    watch_blocks_clear(&jw->blocks);
    jw->timer = jw->starts_timer = jw->blocks_timer = NULL;
}

void job_watch_clear(struct ctld *c)
{
    struct job_watch *jw = c->job_watch;
    if (!jw)
        return;
    job_watch_end(c);
    free(jw->dirty);
    watch_past_clear(&jw->past);
    free(jw);
    c->job_watch = NULL;
}
