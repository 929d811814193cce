/* submit_dry_run.c - dry run: what a submit would do.
 *
 * The engine enters the jobs as a submit does, checks their dependencies and
 * makes a plan like the next one; after it has reported the result it removes
 * them again. In a long sweep the engine checks all tasks but enters only the
 * first ones: a task costs as much as a submit, and the daemon serves no client
 * meanwhile. A dry run happens between two events of the daemon, so neither the
 * store, nor the allocator, nor any reader sees these jobs, and their ids are
 * reused.
 *
 * The other jobs do not change: a pending job keeps the reason and the estimate
 * of the last plan.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/job_curves.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/engine/plan/take_back.h"
#include "scheduler/engine/requests/requests.h"
#include "scheduler/engine/rules/rules.h"
#include "scheduler/policy/placement.h"

enum {
    ALIKE_MAX = 10000, /* jobs to compare with: 1 ms */
    TRIED_MAX = 256    /* tasks to enter, 20 us each */
};

struct trial {
    struct engine *e;
    uint64_t first;
    size_t n;
    int32_t *at; /* owned; [e->n_nodes] */
    struct engine_trial told;
};

/* State of the engine, besides the records, that a submit changes. */
struct mark {
    size_t n_events, n_early;
    uint64_t last_id;
    bool wants_plan, wants_depends;
};

static struct mark mark_of(const struct engine *e)
{
    return (struct mark){e->n_events, e->lists.early.n, e->last_id,
                         e->wants_plan, e->wants_depends};
}

static void back_to(struct engine *e, const struct mark *m)
{
    eng_stage_undo(e, m->n_events);
    /* No client has seen the ids. */
    e->last_id = m->last_id;
    /* Other jobs may have reached their begin time meanwhile: they need a
     * plan. */
    e->wants_plan = m->wants_plan || e->lists.early.n < m->n_early;
    e->wants_depends = m->wants_depends;
}

static struct job_record *task(const struct trial *t, size_t i)
{
    return eng_find(t->e, t->first + i);
}

static bool is_planned_for(const struct job_record *rec)
{
    return rec->job.state == JOB_QUEUED && !eng_waits(rec);
}

static void all_wait(struct trial *t, const char *why)
{
    for (size_t i = 0; i < t->n; i++)
        if (is_planned_for(task(t, i)))
            (void)eng_set_reason(t->e, task(t, i), why);
}

static void no_inventory(struct trial *t, const struct error *why)
{
    struct detail d = DETAIL_INIT;

    detail_because(&d, "SlurmUnavailable: ", why->msg);
    all_wait(t, why->code == ERR_UNAVAIL
                    ? d.why
                    : "WaitingForGpus: the inventory is unknown");
}

/* Takes what a decision starts from the free GPUs, in the policy's order. */
static void take(struct trial *t, struct eng_view *view,
                 const struct policy_decision *w, const struct job_record *rec)
{
    const struct alloc_where where =
        eng_where(t->e->parts.conf, &rec->job, w->gpus_per_node);
    const struct place p = {w->nodes, w->gpus_per_node, w->classes,
                            where.exclusive};

    if (place_fits(view->nodes, view->v.n_nodes, p))
        place_take(view->nodes, view->v.n_nodes, p, t->at);
}

static void look(struct trial *t, struct eng_view *view, size_t n)
{
    struct engine *e = t->e;

    for (size_t i = 0; i < n; i++) {
        const struct policy_decision *w = &view->decisions[i];
        struct job_record *rec = eng_find(e, w->id);
        bool is_ours = w->id >= t->first, starts = w->act == POLICY_START;
        char why[JOB_REASON_CAP];
        if (starts && t->told.n_start == 0)
            take(t, view, w, rec);
        if (is_ours && w->act == POLICY_WAIT) {
            rec->job.start_estimate_s = w->start_s;
            (void)eng_set_reason(e, rec, eng_wait_reason(e, rec, w, why));
        }
        if (!is_ours || !starts)
            continue;
        rec->is_planned = true;
        if (t->told.n_start++ > 0)
            continue;
        t->told.nodes = w->nodes;
        t->told.gpus_per_node = w->gpus_per_node;
        if (w->gpus_per_node > 0 &&
            (eng_wants_type(e, &rec->job) || eng_curves_prefer_type(e, rec)))
            t->told.gpu_type = eng_type_of(e, w->classes);
    }
}

static int plan(struct trial *t, struct error *err)
{
    struct engine *e = t->e;
    struct error why = ERROR_INIT;
    struct eng_view view = {.nodes = NULL};
    bool *was_ahead = NULL;
    size_t n = 0;

    if (e->is_draining) {
        all_wait(t, e->pause_reason);
        return 0;
    }
    if (eng_inventory(e, &why) < 0) {
        no_inventory(t, &why);
        return 0;
    }
    t->at = calloc(e->n_nodes + 1, sizeof(*t->at));
    if (!t->at)
        return error_set(err, ERR_NOMEM, "out of memory");
    if (eng_ahead_save(e, &was_ahead, err) < 0)
        return -1;
    int rc = eng_view_build(e, &view, err);
    if (rc == 0 && view.v.n_jobs > 0)
        rc = eng_make_plan(e, &view, t->first, &n, err);
    for (size_t i = 0; i < t->n; i++)
        task(t, i)->is_planned = false; /* the limits use this flag as well */
    if (rc == 0)
        look(t, &view, n);
    eng_ahead_restore(e, was_ahead);
    eng_view_clear(&view);
    return rc;
}

/* The class of a job is its own, so only jobs that have run were measured. */
static uint64_t find_alike(const struct trial *t)
{
    const struct job_record *of = task(t, 0);
    uint64_t id = t->first;

    for (int i = 0; of->own.class && i < ALIKE_MAX && --id > 0; i++) {
        const struct job_record *rec = eng_find(t->e, id);
        if (rec && rec->job.attempt > 0 && rec->own.class &&
            engine_may(t->e, &rec->job, of->job.uid) &&
            strcmp(rec->own.class, of->own.class) == 0)
            return id;
    }
    return 0;
}

static int enter(struct trial *t, const struct engine_submit *req,
                 const struct engine_sweep *sweep, struct error *err)
{
    struct engine_submit ours = *req;
    struct engine *e = t->e;

    ours.key = "-"; /* the job is gone before its key can be looked up */
    ours.digest = NULL;
    t->told.n = sweep ? sweep->n : 1;
    t->n = t->told.n < TRIED_MAX ? t->told.n : TRIED_MAX;
    if ((sweep && eng_check_sweep(sweep, err) < 0) ||
        eng_check_room(e, req->uid, t->told.n, err) < 0)
        return -1;
    int rc = sweep ? eng_enter_sweep(e, &ours, sweep, t->n, &t->first,
                                     &t->told.n_never, err)
                   : eng_enter_one(e, &ours, &t->first, err);
    eng_fates_anew(e);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        rc = eng_depends_one(e, task(t, i), err);
    if (rc == 0)
        eng_begins(e);
    return rc;
}

int engine_dry_run(struct engine *e, const struct engine_submit *req,
                   const struct engine_sweep *sweep,
                   int (*tell)(void *arg, const struct engine_trial *t,
                               struct error *err),
                   void *arg, struct error *err)
{
    const struct mark mark = mark_of(e);
    struct trial t = {.e = e};

    int rc = enter(&t, req, sweep, err);
    if (rc == 0)
        rc = plan(&t, err);
    if (rc == 0) {
        t.told.first = &task(&t, 0)->job;
        t.told.n_tried = t.n;
        t.told.at = t.at;
        t.told.gpu_type = t.told.gpu_type ? t.told.gpu_type : "";
        t.told.alike = find_alike(&t);
        for (size_t i = 0; i < t.n && !t.told.waits; i++)
            if (!task(&t, i)->is_planned)
                t.told.waits = &task(&t, i)->job;
        for (size_t i = 0; i < t.n; i++)
            t.told.n_never +=
                task(&t, i)->job.force_queue &&
                eng_feasibility_check(e, &task(&t, i)->job, NULL) < 0;
        rc = tell(arg, &t.told, err);
    }
    back_to(e, &mark);
    free(t.at);
    return rc;
}
