/* view_check.c - the job order of a view, and the check of a view.
 *
 * Every policy checks its view first. An engine that shows more free GPUs than
 * a node has, or jobs out of order, gets an error and not a plan.
 */
#include <inttypes.h>

#include "scheduler/policy/policy.h"

bool policy_view_in_order(const struct policy_job *a,
                          const struct policy_job *b)
{
    if (a->has_reservation != b->has_reservation)
        return a->has_reservation > b->has_reservation;
    if (a->is_back != b->is_back)
        return a->is_back > b->is_back;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->user_rank != b->user_rank)
        return a->user_rank < b->user_rank;
    if (a->submit_s < b->submit_s || a->submit_s > b->submit_s)
        return a->submit_s < b->submit_s;
    return a->id < b->id;
}

static int check_job(const struct policy_view *v, size_t i, struct error *err)
{
    const struct policy_job *j = &v->jobs[i];

    if (j->state != JOB_QUEUED && !job_state_is_live(j->state))
        return error_set(err, ERR_INVAL, "job %" PRIu64 " is %s", j->id,
                         job_state_name(j->state));
    if (j->gpus_min < 0 || j->gpus_max < j->gpus_min || j->nodes_min < 1 ||
        j->nodes_max < j->nodes_min)
        return error_set(err, ERR_INVAL,
                         "job %" PRIu64 " asks for %" PRId32 "..%" PRId32
                         " GPUs on %" PRId32 "..%" PRId32 " nodes",
                         j->id, j->gpus_min, j->gpus_max, j->nodes_min,
                         j->nodes_max);
    for (int32_t k = 0; j->at && k < j->nodes; k++) {
        if (j->at[k] < 0 || (size_t)j->at[k] >= v->n_nodes)
            return error_set(err, ERR_INVAL,
                             "job %" PRIu64 " runs on node %" PRId32 " of %zu",
                             j->id, j->at[k], v->n_nodes);
    }
    if (i > 0 && !policy_view_in_order(&v->jobs[i - 1], j))
        return error_set(err, ERR_INVAL, "job %" PRIu64 " is out of order",
                         j->id);
    return 0;
}

int policy_check_view(const struct policy_view *v, size_t cap,
                      struct error *err)
{
    size_t n_decisions = 0;

    for (size_t i = 0; i < v->n_nodes; i++) {
        const struct policy_node *node = &v->nodes[i];
        if (node->gpus_free < 0 || node->gpus_free > node->gpus_total)
            return error_set(err, ERR_INVAL,
                             "node %zu has %" PRId32 " of %" PRId32
                             " GPUs free",
                             i, node->gpus_free, node->gpus_total);
        if (node->class_id < 0 || node->class_id >= POLICY_CLASSES)
            return error_set(err, ERR_INVAL, "node %zu is of class %" PRId32, i,
                             node->class_id);
        if (node->part < 0 || (size_t)node->part > i ||
            (node->n_parts > 0 &&
             (node->part >= node->n_parts ||
              i + (size_t)(node->n_parts - node->part) > v->n_nodes)))
            return error_set(err, ERR_INVAL,
                             "node %zu is part %" PRId32 " of %" PRId32, i,
                             node->part, node->n_parts);
    }
    for (size_t i = 0; i < v->n_jobs; i++) {
        if (check_job(v, i, err) < 0)
            return -1;
        n_decisions += v->jobs[i].state == JOB_QUEUED || v->preempt.is_on;
    }
    if (n_decisions > cap)
        return error_set(err, ERR_LIMIT, "%zu jobs, room for %zu decisions",
                         n_decisions, cap);
    return 0;
}
