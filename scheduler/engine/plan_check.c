/* plan_check.c - a policy is trusted to be clever, not right.
 *
 * Checked here, on the view that the policy was given: each queued job has
 * exactly one wish and no other job has any, a start keeps its job's bounds,
 * and all starts together fit on what is free.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/engine/core.h"
#include "scheduler/policy/place.h"

/* Looks from *i on, because wishes mostly come in the order of the jobs.
 * out  *i  where it is, when it is there */
static const struct policy_job *queued(const struct policy_view *v, uint64_t id,
                                       size_t *i)
{
    for (size_t n = 0, k = *i; n < v->n_jobs; n++, k++) {
        if (k >= v->n_jobs)
            k = 0;
        if (v->jobs[k].id == id && v->jobs[k].state == JOB_QUEUED) {
            *i = k;
            return &v->jobs[k];
        }
    }
    return NULL;
}

static int check_start(const struct policy_job *job,
                       const struct policy_wish *w, struct policy_node *nodes,
                       size_t n_nodes, int32_t *at, struct error *err)
{
    struct place p = place_of(job, w->nodes, w->gpus_per_node);
    int64_t gpus = (int64_t)p.nodes * p.per_node;

    if (p.nodes < job->nodes_min || p.nodes > job->nodes_max ||
        p.per_node < 0 || gpus < job->gpus_min || gpus > job->gpus_max)
        return error_set(err, ERR_INTERNAL,
                         "job %" PRIu64 " may not have %" PRId32
                         " nodes with %" PRId32 " GPUs",
                         w->id, p.nodes, p.per_node);
    if (!place_fits(nodes, n_nodes, p))
        return error_set(err, ERR_INTERNAL,
                         "no room for %" PRId32 " nodes with %" PRId32
                         " GPUs of job %" PRIu64,
                         p.nodes, p.per_node, w->id);
    place_take(nodes, n_nodes, p, at);
    return 0;
}

static int check(const struct policy_view *v, const struct policy_wish *wishes,
                 size_t n, struct policy_node *nodes, int32_t *at, bool *seen,
                 struct error *err)
{
    size_t n_queued = 0, k = 0;

    for (size_t i = 0; i < v->n_jobs; i++)
        n_queued += v->jobs[i].state == JOB_QUEUED;
    if (n != n_queued)
        return error_set(err, ERR_INTERNAL, "%zu wishes for %zu queued jobs", n,
                         n_queued);
    for (size_t i = 0; i < n; i++) {
        const struct policy_wish *w = &wishes[i];
        const struct policy_job *job = queued(v, w->id, &k);
        if (!job || seen[k])
            return error_set(err, ERR_INTERNAL, "a %s wish for job %" PRIu64,
                             job ? "second" : "stray", w->id);
        seen[k] = true;
        if (w->act != POLICY_START && w->act != POLICY_WAIT)
            return error_set(err, ERR_INTERNAL,
                             "job %" PRIu64 " can only start or wait", w->id);
        if (w->act == POLICY_START &&
            check_start(job, w, nodes, v->n_nodes, at, err) < 0)
            return -1;
    }
    return 0;
}

int eng_check_plan(const struct policy_view *view,
                   const struct policy_wish *wishes, size_t n,
                   struct error *err)
{
    struct policy_node *nodes = malloc((view->n_nodes + 1) * sizeof(*nodes));
    int32_t *at = malloc((view->n_nodes + 1) * sizeof(*at));
    bool *seen = calloc(view->n_jobs + 1, sizeof(*seen));
    int rc;

    if (nodes && at && seen) {
        memcpy(nodes, view->nodes, view->n_nodes * sizeof(*nodes));
        rc = check(view, wishes, n, nodes, at, seen, err);
    } else {
        rc = error_set(err, ERR_NOMEM, "out of memory");
    }
    free(nodes);
    free(at);
    free(seen);
    return rc;
}
