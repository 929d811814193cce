/* goodput_rigid.c - jobs of one size: they compete until they are late, and
 * then keep their place as under backfill.
 *
 * A job of known length is worth by its weight and its speed what one with a
 * range is worth on as many GPUs: so nobody gains by asking for one size. Once
 * it has waited for twice the time that it takes, it is late; among several
 * users with fair share also not before it has waited for the time that it
 * takes on an equal share of the GPUs, as one with a range would. A job before
 * one of lower priority does not compete: it needs a reservation against that.
 *
 * Backfill plans the others on what is free, with its reservations on named
 * nodes, as if no job with a range waited. Those that it starts go first. The
 * first that it does not start is the head: it gets its GPUs as soon as jobs
 * with a range can give them up. A job that began before the head was submitted
 * keeps its smallest size; one that began later took GPUs that the head waits
 * for, and makes room altogether, also if it needs them to end within its time
 * limit: else the head would wait for all that come and are short of time.
 */
#include <stdlib.h>
#include <string.h>

#include "scheduler/policy/goodput_in_time.h"
#include "scheduler/policy/goodput_plan.h"
#include "scheduler/policy/goodput_rigid.h"

/* It has waited for so many times as long as it takes on its size. Later, wide
 * jobs in a stream of narrow ones wait for more than twice as long as under
 * backfill; earlier, one size pays more. */
static const double LATE = 2;

bool gp_rigid_is_late(const struct gp *g, const struct policy_job *job,
                      double one_s, double speed, int32_t gpus)
{
    double waited_s = gp_waited_s(g, job);

    speed = isfinite(speed) && speed > 0 ? speed : gpus;
    return waited_s * speed >= LATE * one_s &&
           waited_s >= g->jobs_per_gpu * one_s;
}

void gp_rigid_compete(const struct gp *g, struct gp_job *io)
{
    const struct policy_job *job = io->job;
    struct gp_size *size = &io->sizes[0];
    double one_s = job->goodput.one_s;

    if (io->is_forced || job->goodput.curve || size->gpus == 0 ||
        !isfinite(one_s) || one_s <= 0 || job->priority > g->least_priority)
        return;
    if (gp_rigid_is_late(g, job, one_s, job->goodput.speed, size->gpus))
        return;
    io->competes = true;
    size->value = size->hoped =
        gp_sizes_value(g, job, job->goodput.speed, size->gpus);
}

static bool is_rigid(const struct gp_job *j)
{
    return j->is_single && !j->competes && !j->is_forced &&
           j->sizes[0].gpus > 0;
}

static bool any_rigid(const struct gp *g)
{
    for (size_t i = 0; i < g->n; i++)
        if (is_rigid(&g->jobs[i]))
            return true;
    return false;
}

/* Live jobs, and the queued ones of one size; those that compete only if
 * `with_all`. */
static size_t view_rigid(const struct gp *g, bool with_all,
                         struct policy_job *jobs)
{
    const struct policy_view *v = g->p->view;
    size_t n = 0, k = 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct gp_job *j =
            k < g->n && g->jobs[k].order == i ? &g->jobs[k++] : NULL;
        if (v->jobs[i].state != JOB_QUEUED ||
            (j && j->is_single && (with_all || !j->competes)))
            jobs[n++] = v->jobs[i];
    }
    return n;
}

/* The job of a decision; NULL: none of ours. Decisions mostly come in the order
 * of the jobs, so the search goes on behind the last one. */
static struct gp_job *job_of(struct gp *g, uint64_t id, size_t *io_next)
{
    for (size_t k = 0; k < g->n; k++) {
        size_t i = (*io_next + k) % g->n;
        if (g->jobs[i].job->id != id)
            continue;
        *io_next = i + 1;
        return &g->jobs[i];
    }
    return NULL;
}

static void take_decision(struct gp *g, const struct policy_decision *w,
                          size_t *io_next)
{
    struct gp_job *j = job_of(g, w->id, io_next);

    if (!j || !is_rigid(j))
        return;
    if (w->act == POLICY_START) {
        j->is_forced = j->is_backfilled = true;
        return;
    }
    j->waits_s = w->start_s;
    j->is_barred = true;
    if (!g->head)
        g->head = j;
}

/* A job that competes takes no GPUs of the head's reservation: nobody could
 * take them back. */
static void bar(struct gp *g, const struct policy_decision *w, size_t *io_next)
{
    struct gp_job *j = job_of(g, w->id, io_next);

    if (!j || !j->competes || w->act == POLICY_START)
        return;
    j->waits_s = w->start_s;
    j->is_barred = true;
}

static int plan_rigid(struct gp *g, bool with_all,
                      void (*take)(struct gp *, const struct policy_decision *,
                                   size_t *),
                      struct error *err)
{
    struct policy_view v = *g->p->view;
    struct policy_job *jobs = malloc((v.n_jobs + 1) * sizeof(*jobs));
    struct policy_decision *decisions =
        malloc((v.n_jobs + 1) * sizeof(*decisions));
    size_t n = 0, next = 0;
    int rc = jobs && decisions ? 0 : error_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0) {
        v.n_jobs = view_rigid(g, with_all, jobs);
        v.jobs = jobs;
        v.preempt.is_on = 0; /* that is goodput's own */
        rc = policy_backfill.plan(&v, decisions, v.n_jobs, &n, err);
    }
    for (size_t i = 0; i < n; i++)
        take(g, &decisions[i], &next);
    free(jobs);
    free(decisions);
    return rc;
}

int gp_rigid(struct gp *g, struct error *err)
{
    bool competes = false;

    if (!any_rigid(g))
        return 0;
    for (size_t i = 0; i < g->n; i++)
        competes = competes || g->jobs[i].competes;
    if (plan_rigid(g, false, take_decision, err) < 0)
        return -1;
    return g->head && competes ? plan_rigid(g, true, bar, err) : 0;
}

/* ---- the head -------------------------------------------------------------
 */
static bool is_older(const struct gp *g, const struct gp_job *j)
{
    return j->job->start_s < g->head->job->submit_s;
}

bool gp_rigid_head_fits(struct gp *g, int32_t *io_left)
{
    int32_t wants = g->head->sizes[0].gpus;

    for (size_t i = 0; i < g->n; i++) {
        const struct gp_job *j = &g->jobs[i];
        if (j->now >= 0 && !gp_keeps(j) && is_older(g, j))
            wants += j->sizes[0].gpus;
    }
    *io_left += gp_in_time_give(g, g->head, wants - *io_left, INFINITY);
    return wants <= *io_left;
}

static bool is_at(const struct policy_job *job, size_t node)
{
    for (int32_t k = 0; k < job->nodes; k++)
        if ((size_t)job->at[k] == node)
            return true;
    return false;
}

static bool may_yield(const struct gp *g, const struct gp_job *j, size_t node)
{
    return j->now >= 0 && j->chosen >= 0 && !j->is_held && !is_older(g, j) &&
           is_at(j->job, node);
}

/* GPUs of the node once all young jobs there have gone; what a job that goes
 * anyway has there is free already. */
static int32_t could_have(const struct gp *g, size_t node)
{
    int32_t n = place_free(&g->soon.nodes[node]);

    for (size_t i = 0; i < g->n; i++)
        if (may_yield(g, &g->jobs[i], node) &&
            g->jobs[i].chosen == g->jobs[i].now)
            n += g->jobs[i].job->gpus / g->jobs[i].job->nodes;
    return n;
}

/* The node that the fewest GPUs have to leave; n_nodes: none. */
static size_t next_node(const struct gp *g, const bool *is_taken)
{
    const struct policy_view *v = g->p->view;
    size_t best = v->n_nodes;

    for (size_t i = 0; i < v->n_nodes; i++) {
        const struct policy_node *node = &g->soon.nodes[i];
        if (is_taken[i] || !node->is_up ||
            !place_may_use(g->head->job->classes, node) ||
            could_have(g, i) < g->head->sizes[0].per_node)
            continue;
        if (best == v->n_nodes ||
            place_free(node) > place_free(&g->soon.nodes[best]))
            best = i;
    }
    return best;
}

/* The nodes of the head. False: there are too few. out is_taken[n_nodes] */
static bool choose_nodes(const struct gp *g, bool *is_taken)
{
    size_t n_nodes = g->p->view->n_nodes;

    for (int32_t k = 0; k < g->head->sizes[0].nodes; k++) {
        size_t node = next_node(g, is_taken);
        if (node == n_nodes)
            return false;
        is_taken[node] = true;
    }
    return true;
}

/* What the jobs have at the node that were told to go for another one. */
static int32_t given_up(const struct gp *g, size_t node)
{
    int32_t n = 0;

    for (size_t i = 0; i < g->n; i++)
        if (g->jobs[i].yields && is_at(g->jobs[i].job, node))
            n += g->jobs[i].job->gpus / g->jobs[i].job->nodes;
    return n;
}

/* What becomes smaller there anyway has to, if the head lacks GPUs else. in
 * free  GPUs of the node by then */
static void keep_clear(struct gp *g, size_t node, int32_t free)
{
    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        if (j->now < 0 || j->chosen >= j->now || j->yields ||
            !is_at(j->job, node))
            continue;
        int32_t gpus = j->job->gpus / j->job->nodes;
        j->yields = free - gpus < g->head->sizes[0].per_node;
        free -= j->yields ? 0 : gpus;
    }
}

/* Returns the GPUs of the node by then. */
static int32_t clear_node(struct gp *g, size_t node)
{
    int32_t free = place_free(&g->soon.nodes[node]) + given_up(g, node);

    for (size_t i = 0; i < g->n && free < g->head->sizes[0].per_node; i++) {
        struct gp_job *j = &g->jobs[i];
        if (!may_yield(g, j, node))
            continue;
        free += j->job->gpus / j->job->nodes;
        j->chosen = -1;
        j->yields = true;
    }
    return free;
}

/* Nobody is told to go before there are nodes enough. */
bool gp_rigid_make_room(struct gp *g)
{
    size_t n_nodes = g->p->view->n_nodes;
    bool *is_taken = calloc(n_nodes + 1, sizeof(*is_taken));
    int32_t *free_by_then = calloc(n_nodes + 1, sizeof(*free_by_then));
    bool is = is_taken && free_by_then && choose_nodes(g, is_taken);

    for (size_t i = 0; is && i < n_nodes; i++)
        free_by_then[i] = is_taken[i] ? clear_node(g, i) : 0;
    for (size_t i = 0; is && i < n_nodes; i++)
        if (is_taken[i])
            keep_clear(g, i, free_by_then[i]);
    free(is_taken);
    free(free_by_then);
    return is;
}

bool gp_rigid_take_back(struct gp *g)
{
    bool is = false;

    for (size_t i = 0; i < g->n; i++) {
        struct gp_job *j = &g->jobs[i];
        if (!j->yields)
            continue;
        j->chosen = j->chosen < 0 ? j->now : j->chosen;
        j->yields = false;
        is = true;
    }
    return is;
}
