/* placement.c - best-fit placement of a job on a picture of the nodes.
 *
 * A search goes through the placements that a job accepts, fewest GPUs first,
 * and asks of each whether enough nodes have room. See placement.h for the
 * rules.
 */
#include "scheduler/policy/placement.h"

#include <assert.h>

#include "jobs/spec/gpu_sizes.h"

/* Which GPUs of a node count for a job. */
struct look {
    uint64_t classes;
    bool is_whole, when_empty, with_down;
};

bool place_is_empty(const struct policy_node *node)
{
    const struct policy_node *first = node - node->part;
    bool is_empty = node->gpus_free >= node->gpus_total;

    for (int32_t i = 0; i < node->n_parts; i++)
        is_empty = is_empty && first[i].gpus_free >= first[i].gpus_total;
    return is_empty;
}

/* GPUs of the node that count; -1: the node is of no use, not even for a job
 * without GPUs. */
static int32_t has(const struct policy_node *node, const struct look *l)
{
    if (!place_may_use(l->classes, node) || (!node->is_up && !l->with_down))
        return -1;
    if (l->when_empty)
        return node->gpus_total;
    return l->is_whole && !place_is_empty(node) ? -1 : place_free(node);
}

static bool has_room(const struct policy_node *node, const struct place *p)
{
    struct look l = {.classes = p->classes, .is_whole = p->is_whole};
    return has(node, &l) >= p->per_node;
}

bool place_fits(const struct policy_node *nodes, size_t n, struct place p)
{
    int32_t room = 0;
    for (size_t i = 0; i < n && room < p.nodes; i++)
        room += has_room(&nodes[i], &p);
    return room >= p.nodes;
}

static bool has_nodes(const struct policy_node *nodes, size_t n,
                      const struct look *l, int64_t k, int64_t per_node)
{
    int64_t room = 0;
    for (size_t i = 0; i < n && room < k; i++)
        room += has(&nodes[i], l) >= per_node;
    return room >= k;
}

/* On nodes of the classes in l.
 *
 * Calls has_nodes() for each placement of the job: the smallest number of GPUs
 * first and, for each number, the fewest nodes. Stops at the first that fits.
 * The search is bounded by what the nodes could hold, so a range of 1..1000000
 * costs no more than the size of the cluster. */
static bool search_set(const struct policy_node *nodes, size_t n,
                       const struct policy_job *job, const struct look *l,
                       struct place *ret)
{
    int64_t all = 0, most = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t gpus = has(&nodes[i], l);
        all += gpus > 0 ? gpus : 0;
        most = gpus > most ? gpus : most;
        count += gpus >= 0;
    }
    int64_t gpus_max = job->gpus_max < all ? job->gpus_max : all;
    int64_t nodes_max = job->nodes_max < count ? job->nodes_max : count;

    for (int64_t g = job->gpus_min; g <= gpus_max; g++) {
        int64_t k = most > 0 ? (g + most - 1) / most : 1;
        for (k = k > job->nodes_min ? k : job->nodes_min; k <= nodes_max; k++) {
            if (g % k != 0 || (job->per_node > 0 && g / k != job->per_node) ||
                !gpu_sizes_divide(job->parts, g, k) ||
                !has_nodes(nodes, n, l, k, g / k))
                continue;
            *ret = place_of(job, (int32_t)k, (int32_t)(g / k));
            ret->classes = l->classes;
            return true;
        }
    }
    return false;
}

static bool search(const struct policy_node *nodes, size_t n,
                   const struct policy_job *job, const struct look *l,
                   struct place *ret)
{
    struct look one = *l;

    if (job->n_sets == 0)
        return search_set(nodes, n, job, l, ret);
    for (size_t i = 0; i < job->n_sets; i++) {
        one.classes = l->classes & job->sets[i];
        if (one.classes != 0 && search_set(nodes, n, job, &one, ret))
            return true;
    }
    return false;
}

bool place_find(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, struct place *ret)
{
    struct look l = {.classes = job->classes,
                     .is_whole = job->is_exclusive != 0};
    return search(nodes, n, job, &l, ret);
}

bool place_empty(const struct policy_node *nodes, size_t n,
                 const struct policy_job *job, struct place *ret)
{
    struct look l = {.classes = job->classes, .when_empty = true};
    return search(nodes, n, job, &l, ret);
}

bool place_ever(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, bool with_down)
{
    struct look l = {.classes = with_down ? job->classes_ever : job->classes,
                     .when_empty = true,
                     .with_down = with_down};
    struct place p;
    return search(nodes, n, job, &l, &p);
}

/* Best fit for all but the first `k` nodes, which are given. */
static bool choose(const struct policy_node *nodes, size_t n, struct place p,
                   int32_t k, int32_t *at)
{
    for (; k < p.nodes; k++) {
        size_t best = n;
        bool is_exact = false; /* no node fits better */
        for (size_t i = 0; i < n && !is_exact; i++) {
            bool taken = false;
            for (int32_t j = 0; j < k; j++)
                taken = taken || at[j] == (int32_t)i;
            if (!taken && has_room(&nodes[i], &p) &&
                (best == n || place_free(&nodes[i]) < place_free(&nodes[best])))
                best = i;
            is_exact = best == i && place_free(&nodes[i]) == p.per_node;
        }
        if (best == n)
            return false;
        at[k] = (int32_t)best;
    }
    return true;
}

void place_take(struct policy_node *nodes, size_t n, struct place p,
                int32_t *ret_at)
{
    bool fits = choose(nodes, n, p, 0, ret_at);

    assert(fits);
    if (fits)
        place_add(nodes, ret_at, p, -1);
}

bool place_take_on(struct policy_node *nodes, size_t n, struct place p,
                   size_t first, int32_t *ret_at)
{
    if (p.nodes < 1 || !has_room(&nodes[first], &p))
        return false;
    ret_at[0] = (int32_t)first;
    if (!choose(nodes, n, p, 1, ret_at))
        return false;
    place_add(nodes, ret_at, p, -1);
    return true;
}

void place_add(struct policy_node *nodes, const int32_t *at, struct place p,
               int32_t sign)
{
    for (int32_t k = 0; k < p.nodes; k++) {
        struct policy_node *node = &nodes[at[k]];
        struct policy_node *first = node - node->part;
        int32_t n_parts = p.is_whole && node->n_parts > 1 ? node->n_parts : 0;
        for (int32_t i = 0; i < n_parts; i++)
            first[i].gpus_free += sign * first[i].gpus_total;
        if (n_parts == 0)
            node->gpus_free +=
                sign * (p.is_whole ? node->gpus_total : p.per_node);
        if (node->n_parts > 1)
            first->shared_free += sign * p.per_node;
    }
}
