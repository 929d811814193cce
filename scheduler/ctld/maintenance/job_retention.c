/* job_retention.c - store.jobs_retention: archived jobs that ended long ago
 * leave for good, with their directories.
 *
 * It begins when a look for old rows (metrics_retention.c) has ended, and takes
 * of the archive, oldest end first, up to 64 jobs at a time; a sweep goes as a
 * whole, when the last of its tasks is old enough. Each haul passes four
 * places:
 *
 *   its thread   reads which they are; one that still has rows, or that cannot
 *                be read, stays
 *   the loop     leaves out those in memory, which is where all are that a job
 *                that has not ended waits for, and bars the rest: nobody
 *                recalls them from now on
 *   its thread   removes their directories, in the state directory only
 *   the commits  remove them from state.db, in one transaction
 *
 * Who is killed in between finds them in the archive again, with less of a
 * directory, and goes on.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/maintenance/remove_tree.h"
#include "scheduler/engine/store/archive.h"

enum { AT_ONCE = 64, HAUL_MAX = AT_ONCE + SPEC_TASKS_MAX, YOUNG_MAX = 16 };
static const double REST_S = 0.02, RETRY_S = 60;

enum errand { FIND, CLEAR, REMOVE };

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

struct haul {
    struct task task;
    struct ctld *c;
    enum errand errand;
    double before_s, now_s; /* since 1970 */
    double since_s;         /* where the pass is, in the archive by end */
    uint64_t after;
    bool is_over;
    struct young young;
    struct store_archived found[AT_ONCE]; /* without texts */
    size_t n_found;
    struct one all[HAUL_MAX];
    size_t n;
    uint64_t ids[HAUL_MAX]; /* of them, for the store and the engine */
    uint64_t n_left;        /* whose directory could not be removed */
    int rc;
    struct error err, why; /* why: of n_left */
};

/* ---- on its thread --------------------------------------------------------
 */

static int note_found(void *arg, const struct store_archived *job,
                      struct error *err)
{
    struct haul *h = arg;
    (void)err;
    if (job->end_s >= h->before_s)
        h->is_over = true;
    else if (h->n_found < AT_ONCE) {
        h->found[h->n_found] = *job;
        h->found[h->n_found++].key = NULL;
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

static int has_rows(const struct haul *h, uint64_t id, bool *ret,
                    struct error *err)
{
    struct store *s = h->c->parts.store;
    *ret = false;
    for (enum store_view v = VIEW_ITERATION; !*ret && v <= VIEW_PROFILE; v++) {
        const struct store_query q = {
            .view = v, .job = id, .rank = -1, .limit = 1};
        if (s->ops->query(s, &q, note_row, ret, err) < 0)
            return -1;
    }
    return 0;
}

static bool is_known(const struct haul *h, uint64_t id)
{
    for (size_t i = 0; i < h->young.n; i++)
        if (id >= h->young.v[i].first && id <= h->young.v[i].last)
            return true;
    for (size_t i = 0; i < h->n; i++)
        if (h->all[i].id == id)
            return true;
    return false;
}

static void note_young(struct haul *h, uint64_t first, size_t n)
{
    struct young *y = &h->young;
    size_t i = y->n < YOUNG_MAX ? y->n++ : (size_t)(first % YOUNG_MAX);
    y->v[i].first = first;
    y->v[i].last = first + n - 1;
}

/* 1: all of the unit may go; 0: not yet. */
static int is_due(const struct haul *h, struct job *const *jobs, size_t n,
                  struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        bool rows;
        if (!(jobs[i]->end_s < h->before_s))
            return 0;
        if (has_rows(h, jobs[i]->id, &rows, err) < 0)
            return -1;
        if (rows)
            return 0;
    }
    return 1;
}

/* A damaged one stays, for fsck to tell of. */
static int add_unit(struct haul *h, uint64_t id, struct error *err)
{
    struct error why = ERROR_INIT;
    struct job **jobs;
    size_t n;
    if (engine_past_read_unit(h->c->parts.store, h->c->jobs_dir, id, &jobs, &n,
                              &why) < 0)
        return why.code == ERR_NOMEM ? error_set(err, ERR_NOMEM, "%s", why.msg)
                                     : 0;
    int rc = is_due(h, jobs, n, err);
    uint64_t unit = jobs[0]->id;
    for (size_t i = 0; rc > 0 && i < n; i++)
        h->all[h->n++] = (struct one){
            .id = jobs[i]->id, .unit = unit, .state = jobs[i]->state};
    if (rc == 0)
        note_young(h, unit, n);
    engine_past_free(jobs, n);
    free(jobs);
    return rc < 0 ? -1 : 0;
}

static int find_some(struct haul *h, struct error *err)
{
    struct store *s = h->c->parts.store;
    const struct store_archive_query q = {.order = ARCHIVE_BY_END,
                                          .since_s = h->since_s,
                                          .after = h->after,
                                          .limit = AT_ONCE};
    h->n = h->n_found = 0;
    if (s->ops->archived(s, &q, note_found, h, err) < 0)
        return -1;
    h->is_over = h->is_over || h->n_found < AT_ONCE;
    for (size_t i = 0; i < h->n_found && h->n < AT_ONCE; i++) {
        h->since_s = h->found[i].end_s;
        h->after = h->found[i].job;
        if (!is_known(h, h->found[i].job) &&
            add_unit(h, h->found[i].job, err) < 0)
            return -1;
        if (h->n >= AT_ONCE && i + 1 < h->n_found)
            h->is_over = false;
    }
    return 0;
}

/* Without the units of which keeps() is false. */
static void keep(struct haul *h,
                 bool (*keeps)(struct haul *h, const struct one *o))
{
    size_t kept = 0;
    for (size_t i = 0, n; i < h->n; i += n) {
        bool stays = true;
        for (n = 0; i + n < h->n && h->all[i + n].unit == h->all[i].unit; n++)
            stays = stays && keeps(h, &h->all[i + n]);
        for (size_t k = 0; stays && k < n; k++)
            h->all[kept++] = h->all[i + k];
    }
    h->n = kept;
}

static bool is_cleared(struct haul *h, const struct one *o)
{
    char name[24];
    (void)snprintf(name, sizeof(name), "%llu", (unsigned long long)o->id);
    if (atomic_load(&h->c->closing))
        return false;
    if (dir_tree_remove(h->c->jobs_dir, name, &h->c->closing, &h->why) == 0)
        return true;
    h->n_left++;
    return false;
}

static void haul_run(struct task *t)
{
    struct haul *h = (struct haul *)t;
    struct store *s = h->c->parts.store;
    h->rc = 0;
    if (h->errand == FIND)
        h->rc = find_some(h, &h->err);
    else if (h->errand == CLEAR)
        keep(h, is_cleared);
    else
        h->rc = s->ops->remove_jobs(s, h->ids, h->n, h->now_s, &h->err);
}

/* ---- on the loop ----------------------------------------------------------
 */

static void haul_done(struct task *t);

static void drop(struct haul *h, double again_s)
{
    struct ctld *c = h->c;
    engine_bar(c->engine, NULL, 0);
    c->retire.haul = NULL;
    if (again_s > 0 && !c->stopping)
        loop_timer_set(c->retire.timer, again_s);
    free(h);
}

static void fail(struct haul *h)
{
    log_warn("store", "old jobs stay for now in_s=%.0f why=\"%s\"", RETRY_S,
             h->err.msg);
    drop(h, RETRY_S);
}

static void post(struct haul *h, struct thread *th, enum errand errand)
{
    h->task = (struct task){.run = haul_run, .done = haul_done};
    h->errand = errand;
    if (thread_post(th, &h->task, &h->err) < 0)
        fail(h);
}

static bool is_out_of_mind(struct haul *h, const struct one *o)
{
    return !engine_job(h->c->engine, o->id);
}

/* The engine reads them where they are, so they are written by the loop alone,
 * and while no errand is under way. */
static void bar(struct haul *h)
{
    for (size_t i = 0; i < h->n; i++)
        h->ids[i] = h->all[i].id;
    engine_bar(h->c->engine, h->ids, h->n);
}

static void count(struct haul *h)
{
    uint64_t n[JOB_STATE_N] = {0};
    for (size_t i = 0; i < h->n; i++)
        n[h->all[i].state]++;
    engine_removed(h->c->engine, n);
    h->c->stats.jobs_removed += h->n;
    log_notice("store", "old jobs were removed jobs=%zu first=%llu last=%llu",
               h->n, (unsigned long long)h->ids[0],
               (unsigned long long)h->ids[h->n - 1]);
}

/* The next haul of the pass, or its end. */
static void go_on(struct haul *h)
{
    struct ctld_retire *r = &h->c->retire;
    if (h->n_left > 0)
        log_err("store",
                "directories of old jobs are left jobs=%llu why=\"%s\"",
                (unsigned long long)h->n_left, h->why.msg);
    r->since_s = h->since_s;
    r->after = h->after;
    if (h->is_over)
        r->passed_s = h->now_s;
    drop(h, h->is_over ? 0 : REST_S);
}

static void haul_done(struct task *t)
{
    struct haul *h = (struct haul *)t;
    struct ctld *c = h->c;
    if (c->stopping) {
        drop(h, 0);
        return;
    }
    if (h->rc < 0) {
        fail(h);
        return;
    }
    if (h->errand == REMOVE)
        count(h);
    if (h->errand == FIND && ctld_jobs_since(c) < h->before_s) {
        drop(h, REST_S); /* they are kept for longer since it was read */
        return;
    }
    if (h->errand == FIND)
        keep(h, is_out_of_mind);
    if (h->errand == REMOVE || h->n == 0) {
        go_on(h);
        return;
    }
    bar(h);
    bool has_dirs = h->errand == FIND && c->parts.conf->makes_dirs;
    post(h, has_dirs ? c->retire.thread : c->commits,
         has_dirs ? CLEAR : REMOVE);
}

static void on_timer(void *arg)
{
    struct ctld *c = arg;
    struct ctld_retire *r = &c->retire;
    struct error err = ERROR_INIT;
    double before_s = ctld_jobs_since(c);
    if (c->stopping || r->haul || !isfinite(before_s))
        return;
    if (!r->thread &&
        thread_create(c->loop, "retire", 1, &r->thread, &err) < 0) {
        log_warn("store", "old jobs stay why=\"%s\"", err.msg);
        return;
    }
    struct haul *h = calloc(1, sizeof(*h));
    if (!h)
        return;
    h->c = c;
    h->before_s = before_s;
    h->now_s = c->parts.clock->wall_s(c->parts.clock);
    h->since_s = r->since_s;
    h->after = r->after;
    r->haul = h;
    post(h, r->thread, FIND);
}

double ctld_jobs_since(struct ctld *c)
{
    double keep_s = c->parts.conf->jobs_retention_s;
    return keep_s > 0 ? ctld_before(c, keep_s) : -INFINITY;
}

void ctld_retire_begin(struct ctld *c)
{
    c->retire.since_s = 0;
    c->retire.after = 0;
    if (c->parts.conf->jobs_retention_s > 0)
        loop_timer_set(c->retire.timer, 0);
}

int ctld_retire_init(struct ctld *c, struct error *err)
{
    c->retire.passed_s = NAN;
    return loop_timer_create(c->loop, on_timer, c, &c->retire.timer, err);
}

void ctld_retire_clear(struct ctld *c)
{
    loop_source_destroy(c->retire.timer);
    c->retire.timer = NULL;
}
