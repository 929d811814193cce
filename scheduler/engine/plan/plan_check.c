/* plan_check.c - check a plan: a policy is trusted to be clever, not right.
 *
 * The check uses the view that the policy was given. Each queued job has
 * exactly one decision, a start respects the bounds of its job, and all starts
 * together fit on what is free. No other job has a decision, except a victim:
 * it leaves for a pending job of higher priority that fits, together with all
 * other such jobs, on what is free then.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/spec/gpu_sizes.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"
#include "scheduler/policy/placement.h"

/* Searches from *i on, because decisions mostly come in the order of the jobs.
 * out  *i  its index, if found */
static const struct policy_job *find(const struct policy_view *v, uint64_t id,
                                     size_t *i)
{
    for (size_t n = 0, k = *i; n < v->n_jobs; n++, k++) {
        if (k >= v->n_jobs)
            k = 0;
        if (v->jobs[k].id == id) {
            *i = k;
            return &v->jobs[k];
        }
    }
    return NULL;
}

/* State of the check of one plan. */
struct checking {
    const struct policy_view *v;
    const struct policy_decision *decisions;
    size_t n;
    struct policy_node *nodes; /* owned; what is free, less the starts */
    int32_t *at;               /* owned */
    bool *seen;                /* owned; by job: its decision was seen */
};

static int check_start(struct checking *c, const struct policy_job *job,
                       const struct policy_decision *w, struct error *err)
{
    struct place p = place_of(job, w->nodes, w->gpus_per_node);
    bool is_of_set = job->n_sets == 0;
    int64_t gpus = (int64_t)p.nodes * p.per_node;

    if (p.nodes < job->nodes_min || p.nodes > job->nodes_max ||
        p.per_node < 0 || (job->per_node > 0 && p.per_node != job->per_node) ||
        gpus < job->gpus_min || gpus > job->gpus_max ||
        !gpu_sizes_divide(job->parts, gpus, p.nodes))
        return error_set(err, ERR_INTERNAL,
                         "job %" PRIu64 " may not have %" PRId32
                         " nodes with %" PRId32 " GPUs",
                         w->id, p.nodes, p.per_node);
    for (size_t i = 0; i < job->n_sets && !is_of_set; i++)
        is_of_set = (w->classes & ~job->sets[i]) == 0;
    if (job->n_sets > 0)
        p.classes &= w->classes;
    if (!is_of_set)
        return error_set(err, ERR_INTERNAL,
                         "job %" PRIu64 " needs nodes of one set", w->id);
    if (!place_fits(c->nodes, c->v->n_nodes, p))
        return error_set(err, ERR_INTERNAL,
                         "no room for %" PRId32 " nodes with %" PRId32
                         " GPUs of job %" PRIu64,
                         p.nodes, p.per_node, w->id);
    place_take(c->nodes, c->v->n_nodes, p, c->at);
    return 0;
}

/* ---- who is to go ----------------------------------------------------------
 */
/* NULL: the job may be preempted. */
static const char *why_not(const struct policy_view *v,
                           const struct policy_job *job)
{
    double now_s = v->now_s;

    if (!v->preempt.is_on)
        return "preemption is off";
    if (!job->may_go || job->is_leaving || !job->at)
        return "it is not preemptible";
    if (now_s - job->start_s < v->preempt.min_runtime_s - 1e-6)
        return "it is below its minimum run time";
    if (now_s - job->preempted_s < POLICY_PREEMPT_AGAIN_S - 1e-6)
        return "it was preempted recently";
    return NULL;
}

static int check_preempt(const struct checking *c, const struct policy_job *job,
                         const struct policy_decision *w, struct error *err)
{
    const char *why = why_not(c->v, job);
    size_t k = 0, i = 0;
    const struct policy_job *to = find(c->v, w->for_id, &k);

    while (i < c->n && (c->decisions[i].act != POLICY_WAIT ||
                        c->decisions[i].id != w->for_id ||
                        !c->decisions[i].has_reservation))
        i++;
    if (!why && (!to || i == c->n))
        why = "no pending job gets its GPUs";
    if (!why && to->priority <= job->priority)
        why = "its priority is not lower";
    return why ? error_set(err, ERR_INTERNAL,
                           "job %" PRIu64
                           " cannot be preempted for job %" PRIu64 ": %s",
                           job->id, w->for_id, why)
               : 0;
}

/* Once all victims have left, there must be room for the reserved jobs on what
 * the starts leave. Which jobs end by themselves is the policy's guess, and no
 * reason to reject a plan without preemption. */
static int check_reserved(struct checking *c, struct error *err)
{
    const struct policy_view *v = c->v;
    double sure_s = v->now_s + v->preempt.grace_s;
    size_t k = 0;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (!job_state_is_live(job->state) || !job->at || job->nodes < 1 ||
            (job->gpus < 1 && !job->is_exclusive))
            continue;
        if (c->seen[i] || job->is_leaving ||
            job->start_s + job->limit_s <= sure_s)
            place_add(c->nodes, job->at,
                      place_of(job, job->nodes, job->gpus / job->nodes), 1);
    }
    for (size_t i = 0; i < c->n; i++) {
        const struct policy_decision *w = &c->decisions[i];
        if (w->has_reservation &&
            check_start(c, find(v, w->id, &k), w, err) < 0)
            return -1;
    }
    return 0;
}

/* ---- who changes its size --------------------------------------------------
 */
static double resize_min_runtime_s(const struct policy_view *v)
{
    return v->goodput.interval_s > 0 ? v->goodput.min_runtime_s
                                     : v->preempt.min_runtime_s;
}

/* When its resizes of an hour allow the size; fewer GPUs, or other nodes. */
static double turn_s(const struct policy_job *job, int32_t nodes, int64_t gpus)
{
    const struct policy_job_goodput *g = &job->goodput;
    bool grows = nodes > 0 && gpus >= job->gpus;

    return grows ? fmin(g->growable_s, g->idle_growable_s) : g->resizable_s;
}

/* The size must be another one that the nodes that are up could hold. What is
 * free then is not checked: the job waits in the queue like any other. */
static int check_resize(const struct checking *c, const struct policy_job *job,
                        const struct policy_decision *w, struct error *err)
{
    const struct policy_view *v = c->v;
    int64_t gpus = (int64_t)w->nodes * w->gpus_per_node;
    struct policy_job then = *job;
    const char *why = NULL;
    struct place p;

    then.gpus_min = then.gpus_max = (int32_t)gpus;
    then.nodes_min = then.nodes_max = w->nodes;
    if (!job->may_resize || job->is_leaving)
        why = "it cannot be resized";
    else if (v->now_s - job->start_s < resize_min_runtime_s(v) - 1e-6)
        why = "it is below its minimum run time";
    else if (v->now_s < job->goodput.paid_s - 1e-6)
        why = "it has not paid for its start";
    else if (v->now_s < turn_s(job, w->nodes, gpus) - 1e-6)
        why = "it was resized too often";
    else if (w->nodes == 0)
        return 0; /* it makes room, and waits */
    else if (w->nodes < job->nodes_min || w->nodes > job->nodes_max ||
             gpus < job->gpus_min || gpus > job->gpus_max ||
             (job->per_node > 0 && w->gpus_per_node != job->per_node) ||
             !gpu_sizes_divide(job->parts, gpus, w->nodes))
        why = "it may not have them";
    else if (gpus == job->gpus && w->nodes == job->nodes)
        why = "it has them";
    else if (!place_empty(v->nodes, v->n_nodes, &then, &p))
        why = "the nodes that are up have fewer";
    return why ? error_set(err, ERR_INTERNAL,
                           "job %" PRIu64 " cannot be resized to %" PRId32
                           " nodes with %" PRId32 " GPUs: %s",
                           job->id, w->nodes, w->gpus_per_node, why)
               : 0;
}

/* ---- the plan --------------------------------------------------------------
 */
static int check_one(struct checking *c, const struct policy_decision *w,
                     size_t *k, struct error *err)
{
    const struct policy_job *job = find(c->v, w->id, k);
    bool is_queued = job && job->state == JOB_QUEUED;
    bool goes = w->act == POLICY_PREEMPT || w->act == POLICY_RESIZE;

    if (!job || c->seen[*k] || is_queued == goes)
        return error_set(err, ERR_INTERNAL, "a %s decision for job %" PRIu64,
                         job && c->seen[*k] ? "second" : "stray", w->id);
    c->seen[*k] = true;
    if (w->act == POLICY_RESIZE)
        return check_resize(c, job, w, err);
    if (goes)
        return check_preempt(c, job, w, err);
    if (w->act != POLICY_START && w->act != POLICY_WAIT)
        return error_set(err, ERR_INTERNAL,
                         "job %" PRIu64 " can only start or wait", w->id);
    return w->act == POLICY_START ? check_start(c, job, w, err) : 0;
}

/* A wrong number of decisions is the first thing to say of a plan, and else
 * what is wrong with one. */
static int say_number(const struct checking *c, struct error *err)
{
    size_t n_queued = 0, n_decisions = 0;

    for (size_t i = 0; i < c->v->n_jobs; i++)
        n_queued += c->v->jobs[i].state == JOB_QUEUED;
    for (size_t i = 0; i < c->n; i++)
        n_decisions += c->decisions[i].act == POLICY_START ||
                       c->decisions[i].act == POLICY_WAIT;
    if (n_decisions == n_queued)
        return -1;
    return error_set(err, ERR_INTERNAL, "%zu decisions for %zu queued jobs",
                     n_decisions, n_queued);
}

/* One pass over a long queue: each costs milliseconds. */
static int check(struct checking *c, struct error *err)
{
    bool goes = false, is_complete = true;
    size_t k = 0, k_goes = 0;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->n; i++) {
        const struct policy_decision *w = &c->decisions[i];
        bool is_live = w->act == POLICY_PREEMPT || w->act == POLICY_RESIZE;
        goes = goes || w->act == POLICY_PREEMPT;
        rc = check_one(c, w, is_live ? &k_goes : &k, err);
    }
    for (size_t i = 0; rc == 0 && i < c->v->n_jobs; i++)
        is_complete =
            is_complete && (c->seen[i] || c->v->jobs[i].state != JOB_QUEUED);
    if (rc < 0 || !is_complete)
        return say_number(c, err);
    return goes ? check_reserved(c, err) : 0;
}

int eng_check_plan(const struct policy_view *view,
                   const struct policy_decision *decisions, size_t n,
                   struct error *err)
{
    struct checking c = {
        .v = view,
        .decisions = decisions,
        .n = n,
        .nodes = malloc((view->n_nodes + 1) * sizeof(*c.nodes)),
        .at = malloc((view->n_nodes + 1) * sizeof(*c.at)),
        .seen = calloc(view->n_jobs + 1, sizeof(*c.seen)),
    };
    int rc;

    if (c.nodes && c.at && c.seen) {
        memcpy(c.nodes, view->nodes, view->n_nodes * sizeof(*c.nodes));
        rc = check(&c, err);
    } else {
        rc = error_set(err, ERR_NOMEM, "out of memory");
    }
    free(c.nodes);
    free(c.at);
    free(c.seen);
    return rc;
}
