/* placement.h - does a job fit on these nodes, and where would it go?
 *
 * A placement is `nodes` times `per_node`: the same number of GPUs on each
 * of its nodes. The policies choose the smallest number of GPUs of the job's
 * range that fits, on as few nodes as the range allows; nodes are taken best
 * fit (the fullest that still has room, then the lowest index), so that
 * whole nodes stay whole. Allocators are expected to place alike; one that
 * does not costs a reservation its exactness, never correctness, because the
 * next view shows where things really are.
 *
 * Only nodes of the job's classes count, and of one of its sets. An exclusive
 * job takes nodes of which everything is free, and all of their GPUs, however
 * many it uses.
 *
 * The parts of a machine (policy.h) are nodes of their own but for what they
 * share: a GPU of one takes its CPUs from the others, too, and who is alone on
 * one has them all.
 */
#ifndef MGPU_SCHEDULER_POLICY_PLACEMENT_H
#define MGPU_SCHEDULER_POLICY_PLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/policy.h"

struct place {
    int32_t nodes, per_node;
    uint64_t classes;
    bool is_whole;
};

static inline struct place place_of(const struct policy_job *job, int32_t nodes,
                                    int32_t per_node)
{
    return (struct place){nodes, per_node, job->classes,
                          job->is_exclusive != 0};
}

static inline bool place_may_use(uint64_t classes,
                                 const struct policy_node *node)
{
    return (classes >> (unsigned)node->class_id & 1) != 0;
}

/* What of the node's GPUs can be given to somebody. */
static inline int32_t place_free(const struct policy_node *node)
{
    const struct policy_node *first = node - node->part;
    bool is_less = node->n_parts > 1 && first->shared_free < node->gpus_free;
    return is_less ? first->shared_free : node->gpus_free;
}

/* Whether no GPU of the machine is taken. */
bool place_is_empty(const struct policy_node *node);

/* True when gpus_free of the up nodes has room for p. */
bool place_fits(const struct policy_node *nodes, size_t n, struct place p);

/* The smallest placement of the job that fits. out  ret, when true */
bool place_find(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, struct place *ret);

/* As place_find, on the nodes that are up when nothing runs on them. */
bool place_empty(const struct policy_node *nodes, size_t n,
                 const struct policy_job *job, struct place *ret);

/* Whether there is one on these nodes when nothing runs on them.
 * in  with_down  also count the nodes that are down, and the classes that are
 *     closed for a while */
bool place_ever(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, bool with_down);

/* Takes the GPUs of p, which fits. out  ret_at [p.nodes] node indexes */
void place_take(struct policy_node *nodes, size_t n, struct place p,
                int32_t *ret_at);

/* The same with the node `first` as one of them; false: it has no room there,
 * or for the rest elsewhere, and nothing is taken. */
bool place_take_on(struct policy_node *nodes, size_t n, struct place p,
                   size_t first, int32_t *ret_at);

/* Takes (sign -1) or gives back (sign 1) the GPUs of p on each of at[]. */
void place_add(struct policy_node *nodes, const int32_t *at, struct place p,
               int32_t sign);

#endif
