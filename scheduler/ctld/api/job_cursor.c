/* job_cursor.c - see job_cursor.h.
 *
 * First the numbers of those in memory that fit are taken down, on the loop;
 * then the numbers of archived ones that may fit, on the reader's thread
 * (job_cursor_read.c), 512 to 4,096 rows at a time. A job leaves memory after
 * it was archived, so by that order it is in one of the two, or in both. Then,
 * from the highest number of either down, each job is shown as it is in memory
 * by now; those that are not there are read on the reader's thread, a chunk at
 * a time: by their lines, 1 us each, where those say enough, else from their
 * events, 4 to 100 us. What comes next is looked for and read while the loop
 * shows what came before: one errand of a walk is out at a time, and what that
 * works on the loop leaves alone.
 *
 * Lines are read where their numbers are found, a chunk of both in one errand:
 * then the thread has the next chunk ready when the loop has shown the last.
 *
 * Archived jobs are looked for from the newest down. Who wants those of the
 * last hour alone, and has not found enough of them among the newest
 * NEWEST_MAX, or none in the last WALK_ROWS, has the rest looked up by their
 * ends.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "jobs/spec/spec.h"
#include "scheduler/ctld/api/job_cursor.h"
#include "scheduler/ctld/api/job_cursor_private.h"
#include "scheduler/ctld/api/job_filter.h"
#include "scheduler/engine/store/archive.h"

enum {
    CHUNK_LEAST = 64, /* of few that are wanted */
    NEWEST_MAX = 16 * WALK_ROWS,
    LOOKS = 256,     /* the clock is asked now and then */
    LOOKS_SHOWN = 16 /* of those that are shown, each 1 to 20 us */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static uint64_t top(const struct walk_ids *ids)
{
    return ids->n > 0 ? ids->v[ids->n - 1].id : 0;
}

static bool fits(const struct walk *w, const struct job *j)
{
    return ctld_filter_fits(w->conf.c, &w->conf.f, j) &&
           (!w->conf.fits || w->conf.fits(w->conf.arg, j));
}

static void walk_free(struct walk *w)
{
    for (int i = 0; i < 2; i++)
        engine_past_free(w->chunks[i].read, w->chunks[i].n);
    engine_past_free(w->spare, w->n_spare);
    for (size_t i = 0; i < w->past.n; i++)
        engine_past_free(&w->past.v[i].read, 1);
    free(w->mine.v);
    free(w->past.v);
    free(w);
}

/* Behind the others. */
static void queue(struct walk *w)
{
    struct ctld *c = w->conf.c;
    struct walk **p = &c->walks;
    while (*p)
        p = &(*p)->next;
    w->next = NULL;
    w->is_queued = true;
    *p = w;
    loop_timer_set(c->walk_timer, 0);
}

static bool fail(struct walk *w, const struct error *why)
{
    w->why = *why;
    w->phase = ENDING;
    return true;
}

static void walk_done(struct task *t)
{
    struct walk *w = (struct walk *)t;
    if (w->damage.code != ERR_NONE)
        log_err("ctld", "an archived job is not in a list why=\"%s\"",
                w->damage.msg);
    w->damage = (struct error)ERROR_INIT;
    w->is_out = false;
    if (w->rc < 0)
        (void)fail(w, &w->err);
    if (!w->is_queued)
        queue(w);
}

/* in  k  of READ.  Where it cannot be sent the walk has failed. */
static void post(struct walk *w, enum walk_errand errand, struct walk_chunk *k)
{
    struct ctld *c = w->conf.c;
    struct error err = ERROR_INIT;
    if (c->stopping)
        (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    else {
        w->task = (struct task){.run = walk_run, .done = walk_done};
        w->errand = errand;
        w->reading = k;
        w->jobs_dir = c->jobs_dir;
        w->is_out = thread_post(c->reader, &w->task, &err) == 0;
    }
    if (!w->is_out)
        (void)fail(w, &err);
}

/* Whether all those in memory were looked at. */
static bool take_mine(struct walk *w, double until_s)
{
    size_t limit = (size_t)w->conf.f.limit;
    struct error err = ERROR_INIT;
    int n_looks = 0;
    const struct job *j = ctld_next_since(w->conf.c, w->after, w->since_s);
    for (; j && j->id <= w->last;
         j = ctld_next_since(w->conf.c, j->id, w->since_s)) {
        w->after = j->id;
        if (fits(w, j) && walk_keep(&w->mine, j->id, &err) < 0)
            return fail(w, &err);
        if (w->mine.v && w->mine.n == 2 * limit) { /* the newest are enough */
            w->floor = w->mine.v[limit - 1].id;
            memmove(w->mine.v, w->mine.v + limit, limit * sizeof(*w->mine.v));
            w->mine.n = limit;
        }
        if (++n_looks % LOOKS == 0 && now_s() > until_s)
            return false;
    }
    w->phase = SHOWING;
    return true;
}

/* The next numbers, of both. False: the archive has to be looked at first. */
static bool next_chunk(struct walk *w, struct walk_chunk *k)
{
    int64_t wanted = w->conf.f.limit - w->n_shown;
    size_t most = wanted < CHUNK_LEAST  ? CHUNK_LEAST
                  : wanted < WALK_CHUNK ? (size_t)wanted
                                        : WALK_CHUNK;
    k->n = k->at = 0;
    while (k->n < most) {
        if (w->has_more && (w->past.n == 0 || w->is_by_end))
            return k->n > 0;
        uint64_t mine = top(&w->mine), past = top(&w->past);
        uint64_t id = mine > past ? mine : past;
        if (id <= w->floor)
            return true;
        w->mine.n -= mine == id;
        w->past.n -= past == id;
        k->read[k->n] = past == id ? w->past.v[w->past.n].read : NULL;
        k->was_read[k->n] = k->read[k->n] != NULL;
        k->id[k->n++] = id;
    }
    return true;
}

/* Whether some of the chunk have to be read. */
static bool must_read(const struct walk *w, struct walk_chunk *k)
{
    bool must = false;
    for (size_t i = k->at; i < k->n; i++) {
        k->skip[i] = k->was_read[i] || engine_job(w->conf.c->engine, k->id[i]);
        must = must || !k->skip[i];
    }
    return must;
}

/* NULL: nobody may know of it, or it is damaged. */
static const struct job *job_at(const struct walk *w, size_t i)
{
    const struct engine *e = w->conf.c->engine;
    const struct job *j = engine_job(e, w->now->id[i]);
    return j ? engine_settled(e, j) : w->now->read[i];
}

/* False when there was no time for all, or one has left memory. */
static bool show_chunk(struct walk *w, double until_s)
{
    struct error err = ERROR_INIT;
    struct walk_chunk *k = w->now;
    int n_looks = 0;
    for (; k->at < k->n && w->n_shown < w->conf.f.limit; k->at++) {
        bool is_there =
            k->was_read[k->at] || engine_job(w->conf.c->engine, k->id[k->at]);
        if (!is_there || (++n_looks % LOOKS_SHOWN == 0 && now_s() > until_s))
            return false;
        const struct job *j = job_at(w, k->at);
        if (!j || !fits(w, j))
            continue;
        w->n_shown++;
        if (w->conf.each(w->conf.arg, j, &err) < 0)
            return fail(w, &err);
    }
    return true;
}

/* Many matches among the newest make the way by numbers the shorter one, as
 * long as there are some. */
static void choose_order(struct walk *w)
{
    if (w->is_by_end || (w->n_looked < NEWEST_MAX && w->n_stale < WALK_ROWS) ||
        !isfinite(w->conf.f.since_s))
        return;
    w->is_by_end = true;
    w->end_s = w->conf.f.since_s;
    w->end_id = 0;
}

/* Has the next chunk looked for, or read, if it is not yet. */
static void look_ahead(struct walk *w)
{
    if (w->is_out || w->ahead->n > 0)
        return;
    if (!next_chunk(w, w->ahead)) {
        choose_order(w);
        post(w, FIND, NULL);
    } else if (must_read(w, w->ahead)) {
        post(w, READ, w->ahead);
    }
}

/* It was shown. */
static void empty(struct walk *w, struct walk_chunk *k)
{
    for (size_t i = 0; walk_is_brief(&w->conf) && i < k->n; i++)
        if (k->read[i] && w->n_spare < WALK_CHUNK) {
            w->spare[w->n_spare++] = k->read[i];
            k->read[i] = NULL;
        }
    engine_past_free(k->read, k->n);
    k->n = k->at = 0;
}

/* The next chunk is the one that is shown. False: it has to be waited for, or
 * there is none, and the phase is over. */
static bool turn_over(struct walk *w)
{
    struct walk_chunk *k = w->now;
    look_ahead(w);
    if (w->is_out || w->phase != SHOWING)
        return false;
    w->now = w->ahead;
    w->ahead = k;
    empty(w, k);
    if (w->now->n == 0)
        w->phase = ENDING;
    return w->now->n > 0;
}

/* As much as one turn may do. False: the thread has what comes next. */
static bool show(struct walk *w, double until_s)
{
    while (w->phase == SHOWING && w->n_shown < w->conf.f.limit) {
        if (w->now->at == w->now->n && !turn_over(w))
            return !w->is_out;
        if (must_read(w, w->now)) {
            if (!w->is_out)
                post(w, READ, w->now);
            return !w->is_out;
        }
        if (w->n_shown + (int64_t)(w->now->n - w->now->at) < w->conf.f.limit)
            look_ahead(w);
        if (w->phase == SHOWING && !show_chunk(w, until_s) && now_s() > until_s)
            return true;
    }
    w->phase = ENDING;
    return true;
}

static void go_on(struct walk *w)
{
    double until_s = now_s() + CTLD_SLICE_S;
    if (w->phase != ENDING && http_is_gone(w->conf.x)) {
        struct error err;
        (void)error_set(&err, ERR_UNAVAIL, "gone");
        (void)fail(w, &err);
    }
    if (w->phase == IN_MEMORY)
        (void)take_mine(w, until_s);
    if (w->phase == SHOWING && !show(w, until_s))
        return; /* walk_done() queues it */
    if (w->phase == ENDING && w->is_out)
        return;
    if (w->phase == ENDING &&
        w->conf.end(w->conf.arg, until_s,
                    w->why.code == ERR_NONE ? NULL : &w->why)) {
        walk_free(w);
        return;
    }
    queue(w);
}

/* One slice of the oldest, which then waits behind the others. */
static void on_walks(void *arg)
{
    struct ctld *c = arg;
    struct walk *w = c->walks;
    if (!w)
        return;
    c->walks = w->next;
    w->is_queued = false;
    if (c->walks)
        loop_timer_set(c->walk_timer, 0);
    go_on(w);
}

static uint64_t bound(int64_t id)
{
    return id > 0 ? (uint64_t)id : 0;
}

/* What of the archive may fit. */
static void take_bounds(struct walk *w)
{
    const struct ctld_filter *f = &w->conf.f;
    uint64_t last = bound(f->id_max);
    w->first = bound(f->id_min - 1);
    if (f->sweep > 0) {
        uint64_t from = bound(f->sweep), to = from + SPEC_TASKS_MAX - 1;
        w->first = from - 1 > w->first ? from - 1 : w->first;
        last = to < last ? to : last;
    }
    last = w->last < last ? w->last : last;
    w->before = last + 1;
    w->has_more = engine_has_past(w->conf.c->engine) &&
                  !(isinf(w->since_s) && w->since_s > 0) && w->first < last;
}

void walk_start(const struct walk_conf *conf)
{
    struct walk *w = calloc(1, sizeof(*w));
    if (!w) {
        struct error err;
        (void)error_set(&err, ERR_NOMEM, "list of jobs");
        (void)conf->end(conf->arg, INFINITY, &err);
        return;
    }
    w->conf = *conf;
    w->now = &w->chunks[0];
    w->ahead = &w->chunks[1];
    w->why = w->err = w->damage = (struct error)ERROR_INIT;
    w->since_s = ctld_filter_since(&conf->f);
    w->last = engine_last_id(conf->c->engine);
    w->rows = walk_is_brief(conf) ? WALK_CHUNK : WALK_ROWS;
    take_bounds(w);
    go_on(w);
}

int ctld_walks_init(struct ctld *c, struct error *err)
{
    if (loop_timer_create(c->loop, on_walks, c, &c->walk_timer, err) < 0)
        return -1;
    loop_source_name(c->walk_timer, "lists");
    return 0;
}

void ctld_walks_clear(struct ctld *c)
{
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (c->walks) {
        struct walk *w = c->walks;
        c->walks = w->next;
        (void)w->conf.end(w->conf.arg, INFINITY, &err);
        walk_free(w);
    }
    loop_source_destroy(c->walk_timer);
    c->walk_timer = NULL;
}
