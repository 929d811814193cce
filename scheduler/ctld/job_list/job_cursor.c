/* job_cursor.c - see job_cursor.h.
 *
 * First the loop collects the ids of matching jobs in memory. Then the reader's
 * thread (job_cursor_read.c) collects the ids of archived jobs that may match,
 * 512 to 4,096 rows at a time. The engine archives a job before it evicts it,
 * so in that order a job is in one of the two lists, or in both. Then, from the
 * highest id of either down, the loop shows each job as it is in memory now.
 * The reader's thread reads the jobs that are not there, a chunk at a time:
 * from their archive rows, 1 us each, where those say enough, else from their
 * events, 4 to 100 us. The thread looks for and reads the next chunk while the
 * loop shows the last one. It has one task of a cursor at a time, and the loop
 * leaves alone what that task works on.
 *
 * Rows are read where their ids are found, a chunk of both in one task. So the
 * thread has the next chunk ready when the loop has shown the last.
 *
 * Archived jobs are searched from the newest down. If the caller wants jobs of
 * the last hour, say, and the newest NEWEST_MAX rows have not enough of them,
 * or the last CURSOR_ROWS rows have none, the rest is looked up by end time.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "jobs/spec/spec.h"
#include "scheduler/ctld/job_list/job_cursor.h"
#include "scheduler/ctld/job_list/job_cursor_private.h"
#include "scheduler/ctld/job_list/job_filter.h"
#include "scheduler/ctld/request/job_lookup.h"
#include "scheduler/engine/store/archive.h"

enum {
    CHUNK_LEAST = 64, /* of few that are wanted */
    NEWEST_MAX = 16 * CURSOR_ROWS,
    LOOKS = 256,     /* the clock is asked now and then */
    LOOKS_SHOWN = 16 /* of those that are shown, each 1 to 20 us */
};

struct job_cursors {
    struct job_cursor *first; /* under way, less those with the reader */
    struct loop_source *timer;
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static uint64_t top(const struct job_cursor_ids *ids)
{
    return ids->n > 0 ? ids->v[ids->n - 1].id : 0;
}

static bool fits(const struct job_cursor *cur, const struct job *j)
{
    return job_filter_fits(cur->conf.c, &cur->conf.f, j) &&
           (!cur->conf.fits || cur->conf.fits(cur->conf.arg, j));
}

static void cursor_free(struct job_cursor *cur)
{
    for (int i = 0; i < 2; i++)
        engine_archive_free(cur->chunks[i].read, cur->chunks[i].n);
    engine_archive_free(cur->spare, cur->n_spare);
    for (size_t i = 0; i < cur->past.n; i++)
        engine_archive_free(&cur->past.v[i].read, 1);
    free(cur->mine.v);
    free(cur->past.v);
    free(cur);
}

/* Behind the others. */
static void queue(struct job_cursor *cur)
{
    struct ctld *c = cur->conf.c;
    struct job_cursor **p = &c->job_cursors->first;
    while (*p)
        p = &(*p)->next;
    cur->next = NULL;
    cur->is_queued = true;
    *p = cur;
    loop_timer_set(c->job_cursors->timer, 0);
}

static bool fail(struct job_cursor *cur, const struct error *why)
{
    cur->why = *why;
    cur->phase = ENDING;
    return true;
}

static void cursor_done(struct task *t)
{
    struct job_cursor *cur = (struct job_cursor *)t;
    if (cur->damage.code != ERR_NONE)
        log_err("ctld", "an archived job is not in a list why=\"%s\"",
                cur->damage.msg);
    cur->damage = (struct error)ERROR_INIT;
    cur->is_out = false;
    if (cur->rc < 0)
        (void)fail(cur, &cur->err);
    if (!cur->is_queued)
        queue(cur);
}

/* in  k  of READ.  If it cannot be posted, the cursor fails. */
static void post(struct job_cursor *cur, enum job_cursor_task work,
                 struct job_cursor_chunk *k)
{
    struct ctld *c = cur->conf.c;
    struct error err = ERROR_INIT;
    if (c->stopping)
        (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    else {
        cur->task = (struct task){.run = job_cursor_run, .done = cursor_done};
        cur->work = work;
        cur->reading = k;
        cur->jobs_dir = c->jobs_dir;
        cur->is_out = work_queue_post(c->reader, &cur->task, &err) == 0;
    }
    if (!cur->is_out)
        (void)fail(cur, &err);
}

/* Whether all those in memory were looked at. */
static bool take_mine(struct job_cursor *cur, double until_s)
{
    size_t limit = (size_t)cur->conf.f.limit;
    struct error err = ERROR_INIT;
    int n_looks = 0;
    const struct job *j =
        ctld_job_next_since(cur->conf.c, cur->after, cur->since_s);
    for (; j && j->id <= cur->last;
         j = ctld_job_next_since(cur->conf.c, j->id, cur->since_s)) {
        cur->after = j->id;
        if (fits(cur, j) && job_cursor_keep(&cur->mine, j->id, &err) < 0)
            return fail(cur, &err);
        if (cur->mine.v &&
            cur->mine.n == 2 * limit) { /* the newest are enough */
            cur->floor = cur->mine.v[limit - 1].id;
            memmove(cur->mine.v, cur->mine.v + limit,
                    limit * sizeof(*cur->mine.v));
            cur->mine.n = limit;
        }
        if (++n_looks % LOOKS == 0 && now_s() > until_s)
            return false;
    }
    cur->phase = SHOWING;
    return true;
}

/* The next numbers, of both. False: the archive has to be looked at first. */
static bool next_chunk(struct job_cursor *cur, struct job_cursor_chunk *k)
{
    int64_t wanted = cur->conf.f.limit - cur->n_shown;
    size_t most = wanted < CHUNK_LEAST    ? CHUNK_LEAST
                  : wanted < CURSOR_CHUNK ? (size_t)wanted
                                          : CURSOR_CHUNK;
    k->n = k->at = 0;
    while (k->n < most) {
        if (cur->has_more && (cur->past.n == 0 || cur->is_by_end))
            return k->n > 0;
        uint64_t mine = top(&cur->mine), past = top(&cur->past);
        uint64_t id = mine > past ? mine : past;
        if (id <= cur->floor)
            return true;
        cur->mine.n -= mine == id;
        cur->past.n -= past == id;
        k->read[k->n] = past == id ? cur->past.v[cur->past.n].read : NULL;
        k->was_read[k->n] = k->read[k->n] != NULL;
        k->id[k->n++] = id;
    }
    return true;
}

/* Whether some of the chunk have to be read. */
static bool must_read(const struct job_cursor *cur, struct job_cursor_chunk *k)
{
    bool must = false;
    for (size_t i = k->at; i < k->n; i++) {
        k->skip[i] =
            k->was_read[i] || engine_job(cur->conf.c->engine, k->id[i]);
        must = must || !k->skip[i];
    }
    return must;
}

/* NULL: it is not durable yet, or it is damaged. */
static const struct job *job_at(const struct job_cursor *cur, size_t i)
{
    const struct engine *e = cur->conf.c->engine;
    const struct job *j = engine_job(e, cur->now->id[i]);
    return j ? engine_settled(e, j) : cur->now->read[i];
}

/* False when there was no time for all, or one has left memory. */
static bool show_chunk(struct job_cursor *cur, double until_s)
{
    struct error err = ERROR_INIT;
    struct job_cursor_chunk *k = cur->now;
    int n_looks = 0;
    for (; k->at < k->n && cur->n_shown < cur->conf.f.limit; k->at++) {
        bool is_there =
            k->was_read[k->at] || engine_job(cur->conf.c->engine, k->id[k->at]);
        if (!is_there || (++n_looks % LOOKS_SHOWN == 0 && now_s() > until_s))
            return false;
        const struct job *j = job_at(cur, k->at);
        if (!j || !fits(cur, j))
            continue;
        cur->n_shown++;
        if (cur->conf.each(cur->conf.arg, j, &err) < 0)
            return fail(cur, &err);
    }
    return true;
}

/* While the newest rows have matches, the way by id is the shorter one. */
static void choose_order(struct job_cursor *cur)
{
    if (cur->is_by_end ||
        (cur->n_looked < NEWEST_MAX && cur->n_stale < CURSOR_ROWS) ||
        !isfinite(cur->conf.f.since_s))
        return;
    cur->is_by_end = true;
    cur->end_s = cur->conf.f.since_s;
    cur->end_id = 0;
}

/* Has the next chunk searched or read, unless that is done. */
static void look_ahead(struct job_cursor *cur)
{
    if (cur->is_out || cur->ahead->n > 0)
        return;
    if (!next_chunk(cur, cur->ahead)) {
        choose_order(cur);
        post(cur, FIND, NULL);
    } else if (must_read(cur, cur->ahead)) {
        post(cur, READ, cur->ahead);
    }
}

/* It was shown. */
static void empty(struct job_cursor *cur, struct job_cursor_chunk *k)
{
    for (size_t i = 0; job_cursor_is_brief(&cur->conf) && i < k->n; i++)
        if (k->read[i] && cur->n_spare < CURSOR_CHUNK) {
            cur->spare[cur->n_spare++] = k->read[i];
            k->read[i] = NULL;
        }
    engine_archive_free(k->read, k->n);
    k->n = k->at = 0;
}

/* The next chunk is the one that is shown. False: it has to be waited for, or
 * there is none, and the phase is over. */
static bool turn_over(struct job_cursor *cur)
{
    struct job_cursor_chunk *k = cur->now;
    look_ahead(cur);
    if (cur->is_out || cur->phase != SHOWING)
        return false;
    cur->now = cur->ahead;
    cur->ahead = k;
    empty(cur, k);
    if (cur->now->n == 0)
        cur->phase = ENDING;
    return cur->now->n > 0;
}

/* As much as one turn may do. False: the thread has what comes next. */
static bool show(struct job_cursor *cur, double until_s)
{
    while (cur->phase == SHOWING && cur->n_shown < cur->conf.f.limit) {
        if (cur->now->at == cur->now->n && !turn_over(cur))
            return !cur->is_out;
        if (must_read(cur, cur->now)) {
            if (!cur->is_out)
                post(cur, READ, cur->now);
            return !cur->is_out;
        }
        if (cur->n_shown + (int64_t)(cur->now->n - cur->now->at) <
            cur->conf.f.limit)
            look_ahead(cur);
        if (cur->phase == SHOWING && !show_chunk(cur, until_s) &&
            now_s() > until_s)
            return true;
    }
    cur->phase = ENDING;
    return true;
}

static void go_on(struct job_cursor *cur)
{
    double until_s = now_s() + CTLD_SLICE_S;
    if (cur->phase != ENDING && http_is_gone(cur->conf.x)) {
        struct error err;
        (void)error_set(&err, ERR_UNAVAIL, "gone");
        (void)fail(cur, &err);
    }
    if (cur->phase == IN_MEMORY)
        (void)take_mine(cur, until_s);
    if (cur->phase == SHOWING && !show(cur, until_s))
        return; /* cursor_done() queues it */
    if (cur->phase == ENDING && cur->is_out)
        return;
    if (cur->phase == ENDING &&
        cur->conf.end(cur->conf.arg, until_s,
                      cur->why.code == ERR_NONE ? NULL : &cur->why)) {
        cursor_free(cur);
        return;
    }
    queue(cur);
}

/* Runs one slice of the first cursor, which then goes behind the others. */
static void on_cursors(void *arg)
{
    struct ctld *c = arg;
    struct job_cursor *cur = c->job_cursors->first;
    if (!cur)
        return;
    c->job_cursors->first = cur->next;
    cur->is_queued = false;
    if (c->job_cursors->first)
        loop_timer_set(c->job_cursors->timer, 0);
    go_on(cur);
}

static uint64_t bound(int64_t id)
{
    return id > 0 ? (uint64_t)id : 0;
}

/* The ids of the archive that may match. */
static void take_bounds(struct job_cursor *cur)
{
    const struct job_filter *f = &cur->conf.f;
    uint64_t last = bound(f->id_max);
    cur->first = bound(f->id_min - 1);
    if (f->sweep > 0) {
        uint64_t from = bound(f->sweep), to = from + SPEC_TASKS_MAX - 1;
        cur->first = from - 1 > cur->first ? from - 1 : cur->first;
        last = to < last ? to : last;
    }
    last = cur->last < last ? cur->last : last;
    cur->before = last + 1;
    cur->has_more = engine_has_past(cur->conf.c->engine) &&
                    !(isinf(cur->since_s) && cur->since_s > 0) &&
                    cur->first < last;
}

void job_cursor_start(const struct job_cursor_conf *conf)
{
    struct job_cursor *cur = calloc(1, sizeof(*cur));
    if (!cur) {
        struct error err;
        (void)error_set(&err, ERR_NOMEM, "list of jobs");
        (void)conf->end(conf->arg, INFINITY, &err);
        return;
    }
    cur->conf = *conf;
    cur->now = &cur->chunks[0];
    cur->ahead = &cur->chunks[1];
    cur->why = cur->err = cur->damage = (struct error)ERROR_INIT;
    cur->since_s = job_filter_since(&conf->f);
    cur->last = engine_last_id(conf->c->engine);
    cur->rows = job_cursor_is_brief(conf) ? CURSOR_CHUNK : CURSOR_ROWS;
    take_bounds(cur);
    go_on(cur);
}

int job_cursor_init(struct ctld *c, struct error *err)
{
    struct job_cursors *all = c->job_cursors = calloc(1, sizeof(*all));
    if (!all)
        return error_set(err, ERR_NOMEM, "lists of jobs");
    if (loop_timer_create(c->loop, on_cursors, c, &all->timer, err) < 0)
        return -1;
    loop_source_name(all->timer, "lists");
    return 0;
}

void job_cursor_clear(struct ctld *c)
{
    struct job_cursors *all = c->job_cursors;
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the daemon is stopping");
    while (all && all->first) {
        struct job_cursor *cur = all->first;
        all->first = cur->next;
        (void)cur->conf.end(cur->conf.arg, INFINITY, &err);
        cursor_free(cur);
    }
    if (all)
        loop_source_destroy(all->timer);
    free(all);
    c->job_cursors = NULL;
}
