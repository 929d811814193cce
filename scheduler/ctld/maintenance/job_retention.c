/* job_retention.c - remove archived jobs older than store.jobs_retention, with
 * their directories.
 *
 * A pass begins when a pass over old rows (metrics_retention.c) has ended. It
 * takes up to 64 jobs of the archive at a time, oldest end first. A sweep is
 * removed as a whole, when the last of its tasks is old enough. Each such batch
 * has four steps:
 *
 *   own thread   reads which jobs are old; a job that still has rows, or that
 *                cannot be read, stays
 *   the loop     leaves out jobs in memory, among which are all that a pending
 *                job depends on, and bars the rest: from now on nobody recalls
 *                them
 *   own thread   removes their directories, in the state directory only
 *   commits      removes them from state.db, in one transaction
 *
 * A daemon that is killed in between finds them in the archive again, with less
 * of a directory, and continues.
 */
#include "scheduler/ctld/maintenance/job_retention.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/metrics_retention.h"
#include "scheduler/ctld/maintenance/remove_tree.h"
#include "scheduler/engine/store/archive.h"

enum { AT_ONCE = 64, BATCH_MAX = AT_ONCE + SPEC_TASKS_MAX, YOUNG_MAX = 16 };
static const double REST_S = 0.02, RETRY_S = 60;

struct job_retention {
    struct loop_source *timer;
    struct thread *thread; /* NULL before the first batch */
    struct batch *batch;   /* under way, or NULL */
    double since_s;        /* the pass has come to this end and job */
    uint64_t after;
    double passed_s; /* when the last one ended; NAN: not yet */
};

enum step { FIND, CLEAR, REMOVE };

struct one {
    uint64_t id, unit; /* unit: the first of its sweep, or itself */
    enum job_state state;
};

/* Sweeps whose last task is not old enough, from number to number. */
struct young {
    struct {
        uint64_t first, last;
    } v[YOUNG_MAX];
    size_t n;
};

struct batch {
    struct task task;
    struct ctld *c;
    enum step step;
    double before_s, now_s; /* since 1970 */
    double since_s;         /* where the pass is, in the archive by end */
    uint64_t after;
    bool is_over;
    struct young young;
    struct store_archived found[AT_ONCE]; /* without texts */
    size_t n_found;
    struct one all[BATCH_MAX];
    size_t n;
    uint64_t ids[BATCH_MAX]; /* of them, for the store and the engine */
    uint64_t n_left;         /* whose directory could not be removed */
    int rc;
    struct error err, why; /* why: of n_left */
};

/* ---- on its thread --------------------------------------------------------
 */

static int note_found(void *arg, const struct store_archived *job,
                      struct error *err)
{
    struct batch *b = arg;
    (void)err;
    if (job->end_s >= b->before_s)
        b->is_over = true;
    else if (b->n_found < AT_ONCE) {
        b->found[b->n_found] = *job;
        b->found[b->n_found++].key = NULL;
    }
    return 0;
}

static int note_row(void *arg, const struct store_cell *cells, size_t n,
                    struct error *err)
{
    (void)cells;
    (void)n;
    (void)err;
    *(bool *)arg = true;
    return 0;
}

static int has_rows(const struct batch *b, uint64_t id, bool *ret,
                    struct error *err)
{
    struct store *s = b->c->parts.store;
    *ret = false;
    for (enum store_view v = VIEW_ITERATION; !*ret && v <= VIEW_PROFILE; v++) {
        const struct store_query q = {
            .view = v, .job = id, .rank = -1, .limit = 1};
        if (s->metrics->query(s, &q, note_row, ret, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_known(const struct batch *b, uint64_t id)
{
    for (size_t i = 0; i < b->young.n; i++)
        if (id >= b->young.v[i].first && id <= b->young.v[i].last)
            return true;
    for (size_t i = 0; i < b->n; i++)
        if (b->all[i].id == id)
            return true;
    return false;
}

static void note_young(struct batch *b, uint64_t first, size_t n)
{
    struct young *y = &b->young;
    size_t i = y->n < YOUNG_MAX ? y->n++ : (size_t)(first % YOUNG_MAX);
    y->v[i].first = first;
    y->v[i].last = first + n - 1;
}

/* 1: all of the unit may go; 0: not yet. */
static int is_due(const struct batch *b, struct job *const *jobs, size_t n,
                  struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool rows;
        if (!(jobs[i]->end_s < b->before_s))
            return 0;
        if (has_rows(b, jobs[i]->id, &rows, err) < 0)
            return -1;
        if (rows)
            return 0;
    }
    return 1;
}

/* A damaged job stays, so that fsck reports it. */
static int add_unit(struct batch *b, uint64_t id, struct error *err)
{
    struct error why = ERROR_INIT;
    struct job **jobs;
    size_t n;
    if (engine_archive_read_unit(b->c->parts.store, b->c->jobs_dir, id, &jobs,
                                 &n, &why) < 0)
        return why.code == ERR_NOMEM ? error_set(err, ERR_NOMEM, "%s", why.msg)
                                     : 0;
    int rc = is_due(b, jobs, n, err);
    uint64_t unit = jobs[0]->id;
    for (size_t i = 0; rc > 0 && i < n; i++)
        b->all[b->n++] = (struct one){
            .id = jobs[i]->id, .unit = unit, .state = jobs[i]->state};
    if (rc == 0)
        note_young(b, unit, n);
    engine_archive_free(jobs, n);
    free(jobs);
    return rc < 0 ? -1 : 0;
}

static int find_some(struct batch *b, struct error *err)
{
    struct store *s = b->c->parts.store;
    const struct store_archive_query q = {.order = ARCHIVE_BY_END,
                                          .since_s = b->since_s,
                                          .after = b->after,
                                          .limit = AT_ONCE};
    b->n = b->n_found = 0;
    if (s->ops->archived(s, &q, note_found, b, err) < 0)
        return -1;
    b->is_over = b->is_over || b->n_found < AT_ONCE;
    for (size_t i = 0; i < b->n_found && b->n < AT_ONCE; i++) {
        b->since_s = b->found[i].end_s;
        b->after = b->found[i].job;
        if (!is_known(b, b->found[i].job) &&
            add_unit(b, b->found[i].job, err) < 0)
            return -1;
        if (b->n >= AT_ONCE && i + 1 < b->n_found)
            b->is_over = false;
    }
    return 0;
}

/* Drops each unit for which keeps() is false. */
static void keep(struct batch *b,
                 bool (*keeps)(struct batch *b, const struct one *o))
{
    size_t kept = 0;
    for (size_t i = 0, n; i < b->n; i += n) {
        bool stays = true;
        for (n = 0; i + n < b->n && b->all[i + n].unit == b->all[i].unit; n++)
            stays = stays && keeps(b, &b->all[i + n]);
        for (size_t k = 0; stays && k < n; k++)
            b->all[kept++] = b->all[i + k];
    }
    b->n = kept;
}

static bool is_cleared(struct batch *b, const struct one *o)
{
    char name[24];
    (void)snprintf(name, sizeof(name), "%llu", (unsigned long long)o->id);
    if (atomic_load(&b->c->closing))
        return false;
    if (dir_tree_remove(b->c->jobs_dir, name, &b->c->closing, &b->why) == 0)
        return true;
    b->n_left++;
    return false;
}

static void batch_run(struct task *t)
{
    struct batch *b = (struct batch *)t;
    struct store *s = b->c->parts.store;
    b->rc = 0;
    if (b->step == FIND)
        b->rc = find_some(b, &b->err);
    else if (b->step == CLEAR)
        keep(b, is_cleared);
    else
        b->rc = s->ops->remove_jobs(s, b->ids, b->n, b->now_s, &b->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void batch_done(struct task *t);

static void drop(struct batch *b, double again_s)
{
    struct ctld *c = b->c;
    engine_bar(c->engine, NULL, 0);
    c->job_retention->batch = NULL;
    if (again_s > 0 && !c->stopping)
        loop_timer_set(c->job_retention->timer, again_s);
    free(b);
}

static void fail(struct batch *b)
{
    log_warn("store", "old jobs stay for now in_s=%.0f why=\"%s\"", RETRY_S,
             b->err.msg);
    drop(b, RETRY_S);
}

static void post(struct batch *b, struct thread *th, enum step step)
{
    b->task = (struct task){.run = batch_run, .done = batch_done};
    b->step = step;
    if (work_queue_post(th, &b->task, &b->err) < 0)
        fail(b);
}

static bool is_evicted(struct batch *b, const struct one *o)
{
    return !engine_job(b->c->engine, o->id);
}

/* The engine reads the ids in place, so only the loop writes them, and while no
 * step is under way. */
static void bar(struct batch *b)
{
    for (size_t i = 0; i < b->n; i++)
        b->ids[i] = b->all[i].id;
    engine_bar(b->c->engine, b->ids, b->n);
}

static void count(struct batch *b)
{
    uint64_t n[JOB_STATE_N] = {0};
    for (size_t i = 0; i < b->n; i++)
        n[b->all[i].state]++;
    engine_removed(b->c->engine, n);
    b->c->stats.jobs_removed += b->n;
    log_notice("store", "old jobs were removed jobs=%zu first=%llu last=%llu",
               b->n, (unsigned long long)b->ids[0],
               (unsigned long long)b->ids[b->n - 1]);
}

/* Begins the next batch, or ends the pass. */
static void go_on(struct batch *b)
{
    struct job_retention *r = b->c->job_retention;
    if (b->n_left > 0)
        log_err("store",
                "directories of old jobs are left jobs=%llu why=\"%s\"",
                (unsigned long long)b->n_left, b->why.msg);
    r->since_s = b->since_s;
    r->after = b->after;
    if (b->is_over)
        r->passed_s = b->now_s;
    drop(b, b->is_over ? 0 : REST_S);
}

static void batch_done(struct task *t)
{
    struct batch *b = (struct batch *)t;
    struct ctld *c = b->c;
    if (c->stopping) {
        drop(b, 0);
        return;
    }
    if (b->rc < 0) {
        fail(b);
        return;
    }
    if (b->step == REMOVE)
        count(b);
    if (b->step == FIND && job_retention_since(c) < b->before_s) {
        drop(b, REST_S); /* they are kept for longer since it was read */
        return;
    }
    if (b->step == FIND)
        keep(b, is_evicted);
    if (b->step == REMOVE || b->n == 0) {
        go_on(b);
        return;
    }
    bar(b);
    bool has_dirs = b->step == FIND && c->parts.conf->makes_dirs;
    post(b, has_dirs ? c->job_retention->thread : c->commits,
         has_dirs ? CLEAR : REMOVE);
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct job_retention *r = c->job_retention;
    struct error err = ERROR_INIT;
    double before_s = job_retention_since(c);
    if (c->stopping || r->batch || !isfinite(before_s))
        return;
    if (!r->thread &&
        work_queue_create(c->loop, "retire", 1, &r->thread, &err) < 0) {
        log_warn("store", "old jobs stay why=\"%s\"", err.msg);
        return;
    }
    struct batch *b = calloc(1, sizeof(*b));
    if (!b)
        return;
    b->c = c;
    b->before_s = before_s;
    b->now_s = c->parts.clock->wall_s(c->parts.clock);
    b->since_s = r->since_s;
    b->after = r->after;
    r->batch = b;
    post(b, r->thread, FIND);
}

double job_retention_since(struct ctld *c)
{
    double keep_s = c->parts.conf->jobs_retention_s;
    return keep_s > 0 ? metrics_retention_before(c, keep_s) : -INFINITY;
}

void job_retention_begin(struct ctld *c)
{
    struct job_retention *r = c->job_retention;
    r->since_s = 0;
    r->after = 0;
    if (c->parts.conf->jobs_retention_s > 0)
        loop_timer_set(r->timer, 0);
}

int job_retention_init(struct ctld *c, struct error *err)
{
    struct job_retention *r = c->job_retention = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "retention of jobs");
    r->passed_s = NAN;
    return loop_timer_create(c->loop, on_timer, c, &r->timer, err);
}

void job_retention_stop(struct ctld *c)
{
    if (!c->job_retention)
        return;
    work_queue_destroy(c->job_retention->thread);
    c->job_retention->thread = NULL;
}

void job_retention_clear(struct ctld *c)
{
    if (!c->job_retention)
        return;
    loop_source_destroy(c->job_retention->timer);
    free(c->job_retention);
    c->job_retention = NULL;
}
