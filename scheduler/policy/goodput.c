/* goodput.c - the number of GPUs of each job, from measured scaling and from
 * what is left to do; see docs/policy.md.
 *
 * The plan has four parts: the value of each size of each job
 * (goodput_value.c), the sizes (goodput_hull.c), what fits on the nodes
 * (goodput_place.c), and the decisions. Without a job of several sizes, the
 * plan is that of backfill. Preemption for strictly higher priorities works as
 * under backfill (preempt.h).
 */
#include <math.h>

#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"
#include "scheduler/policy/preempt.h"

/* The good parameters form a plateau: these are not tuned to the last per
 * cent. */
const struct policy_goodput policy_goodput_default = {
    .length_weight = 0.6,
    .speedup_exponent = 0.85,
    .efficiency_floor = 0.4,
    .idle_floor = 0.25,
    .hysteresis_s = 120,
    .horizon_s = 1800,
    .interval_s = 60,
    .min_runtime_s = 60,
    .max_resizes_per_hour = 6,
    .explore = 2,
    .aging = 2,
};

static bool any_elastic(const struct policy_view *v)
{
    for (size_t i = 0; i < v->n_jobs; i++)
        if (v->jobs[i].goodput.curve || policy_is_resizing(&v->jobs[i]) ||
            (v->jobs[i].state == JOB_QUEUED && v->jobs[i].to_gpus > 0))
            return true;
    return false;
}

/* ---- the decisions
 * -----------------------------------------------------------
 */
static void wait(struct gp *g, const struct policy_job *job, double start_s,
                 bool *io_is_first)
{
    struct plan *p = g->p;

    if (!plan_ever(p, job, true)) {
        plan_never_fits(p, job);
        return;
    }
    bool can = plan_ever(p, job, false);
    if (can && *io_is_first) {
        *io_is_first = false;
        if (preempt_for(p, job, NULL, NAN))
            return;
    }
    plan_lacks_gpus(p, job, start_s);
}

/* The place of a size on what is free now, as plan_find() finds it. */
static bool find_now(struct gp *g, const struct policy_job *as,
                     struct place *ret)
{
    if (as->n_sets > 0)
        return plan_find(g->p, as, ret) && picture_take(&g->now, *ret, g->at);
    *ret = place_of(as, as->nodes_min, as->gpus_min / as->nodes_min);
    return picture_take(&g->now, *ret, g->at);
}

/* The job starts unless that would take the GPUs of a reservation. */
static bool start(struct gp *g, const struct gp_job *j)
{
    struct policy_job as = gp_as(j, j->chosen);
    struct place place;

    if (!find_now(g, &as, &place))
        return false;
    if (plan_start_at(g->p, j->job, place, g->at) == NULL)
        return true;
    picture_add(&g->now, g->at, place, 1);
    return false;
}

static void decide_resize(struct gp *g, const struct gp_job *j)
{
    static const struct gp_size none = {.gpus = 0};
    const struct gp_size *to = j->chosen < 0 ? &none : &j->sizes[j->chosen];

    bool goes = g->p->leaves && g->p->leaves[j->order]; /* a victim */
    if (goes || g->p->n == g->p->cap)
        return;
    g->p->decisions[g->p->n++] = (struct policy_decision){
        .act = POLICY_RESIZE,
        .id = j->job->id,
        .nodes = to->nodes,
        .gpus_per_node = to->per_node,
        .classes = j->job->classes,
        .start_s = NAN,
    };
}

/* In the order in which goodput_place.c has put them on the nodes: in another
 * one, the last may find no room. */
static void start_all(struct gp *g)
{
    for (size_t k = 0; k < g->n_movers; k++) {
        struct gp_job *j = &g->jobs[g->line[k]];
        j->is_tried = true;
        j->starts = j->starts && start(g, j);
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->jobs[i].starts && !g->jobs[i].is_tried)
            g->jobs[i].starts = start(g, &g->jobs[i]);
}

static void make_decisions(struct gp *g)
{
    const struct policy_view *v = g->p->view;
    bool is_first = true;
    size_t k = 0;

    start_all(g);
    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct gp_job *j =
            k < g->n && g->jobs[k].order == i ? &g->jobs[k++] : NULL;
        if (v->jobs[i].state == JOB_QUEUED) {
            if (!j || !j->starts)
                wait(g, &v->jobs[i],
                     j && j->is_barred ? j->waits_s : (double)NAN, &is_first);
        }
    }
    for (size_t i = 0; i < g->n; i++)
        if (g->jobs[i].now >= 0 && g->jobs[i].chosen != g->jobs[i].now)
            decide_resize(g, &g->jobs[i]);
}

static int goodput_plan(const struct policy_view *view,
                        struct policy_decision *decisions, size_t cap,
                        size_t *ret_n, struct error *err)
{
    struct plan p;
    struct gp g;

    if (!any_elastic(view))
        return policy_backfill.plan(view, decisions, cap, ret_n, err);
    if (plan_begin(&p, view, decisions, cap, err) < 0)
        return -1;
    int rc = gp_value_collect(&g, &p, err);
    if (rc == 0)
        rc = gp_rigid(&g, err);
    if (rc == 0)
        rc = gp_hull_choose(&g, err);
    if (rc == 0) {
        gp_place(&g);
        make_decisions(&g);
        *ret_n = p.n;
    }
    gp_value_clear(&g);
    plan_end(&p);
    return rc;
}

const struct policy policy_goodput = {
    .name = "goodput",
    .summary = "sizes by measured scaling; jobs with little left weigh more",
    .plan = goodput_plan,
};
