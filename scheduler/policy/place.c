/* place.c - see place.h. */
#include "scheduler/policy/place.h"

#include <assert.h>

static bool has_room(const struct policy_node *node, int32_t per_node)
{
    return node->is_up && node->gpus_free >= per_node;
}

bool place_fits(const struct policy_node *nodes, size_t n, struct place p)
{
    int32_t room = 0;
    for (size_t i = 0; i < n && room < p.nodes; i++)
        room += has_room(&nodes[i], p.per_node);
    return room >= p.nodes;
}

/* Calls fits() for the placements of a job, the smallest number of GPUs
 * first and for each the fewest nodes; stops at the first that fits. No
 * number above what the nodes could ever hold is tried, so that a range of
 * 1..1000000 costs no more than the cluster is large. */
static bool search(const struct policy_node *nodes, size_t n,
                   const struct policy_job *job, bool when_empty,
                   bool with_down, struct place *ret)
{
    int64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += when_empty ? nodes[i].gpus_total : nodes[i].gpus_free;
    int64_t gpus_max = job->gpus_max < all ? job->gpus_max : all;
    int64_t nodes_max =
        job->nodes_max < (int64_t)n ? job->nodes_max : (int64_t)n;

    for (int64_t g = job->gpus_min; g <= gpus_max; g++) {
        for (int64_t k = job->nodes_min; k <= nodes_max; k++) {
            if (g % k != 0)
                continue;
            struct place p = {(int32_t)k, (int32_t)(g / k)};
            int64_t room = 0;
            for (size_t i = 0; i < n; i++) {
                int32_t has =
                    when_empty ? nodes[i].gpus_total : nodes[i].gpus_free;
                room += (nodes[i].is_up || with_down) && has >= p.per_node;
            }
            if (room >= k) {
                *ret = p;
                return true;
            }
        }
    }
    return false;
}

bool place_find(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, struct place *ret)
{
    return search(nodes, n, job, false, false, ret);
}

bool place_ever(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, bool with_down)
{
    struct place p;
    return search(nodes, n, job, true, with_down, &p);
}

void place_take(struct policy_node *nodes, size_t n, struct place p,
                int32_t *ret_at)
{
    assert(place_fits(nodes, n, p));
    for (int32_t k = 0; k < p.nodes; k++) {
        size_t best = n;
        for (size_t i = 0; i < n; i++) {
            bool taken = false;
            for (int32_t j = 0; j < k; j++)
                taken = taken || ret_at[j] == (int32_t)i;
            if (!taken && has_room(&nodes[i], p.per_node) &&
                (best == n || nodes[i].gpus_free < nodes[best].gpus_free))
                best = i;
        }
        ret_at[k] = (int32_t)best;
    }
    place_add(nodes, ret_at, p, -1);
}

void place_add(struct policy_node *nodes, const int32_t *at, struct place p,
               int32_t sign)
{
    for (int32_t k = 0; k < p.nodes; k++)
        nodes[at[k]].gpus_free += sign * p.per_node;
}
