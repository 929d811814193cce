/* placement.h - does a job fit on these nodes, and where would it go?
 *
 * A placement is `nodes` times `per_node`: the same number of GPUs on each of
 * its nodes. The policies choose the smallest number of GPUs of the job's range
 * that fits, on as few nodes as the range allows. Nodes are taken best fit (the
 * fullest node that still has room, then the lowest index), so that whole nodes
 * stay whole. Allocators are expected to place in the same way. One that does
 * not makes a reservation less exact, but never wrong: the next view shows the
 * real placement.
 *
 * Only nodes of the job's classes count, all in one of its sets. An exclusive
 * job takes only empty nodes, and all of their GPUs, however many it uses.
 *
 * The parts of a machine (policy.h) are separate nodes except for what they
 * share: a GPU of one part also takes its CPUs from the other parts, and an
 * exclusive job on one part occupies all of them.
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

/* GPUs of the node that can be allocated. */
static inline int32_t place_free(const struct policy_node *node)
{
    const struct policy_node *first = node - node->part;
    bool is_less = node->n_parts > 1 && first->shared_free < node->gpus_free;
    return is_less ? first->shared_free : node->gpus_free;
}

/* Whether all GPUs of the machine are idle. */
bool place_is_empty(const struct policy_node *node);

/* Whether the free GPUs of the nodes that are up have room for p. */
bool place_fits(const struct policy_node *nodes, size_t n, struct place p);

/* The smallest placement of the job that fits. out ret, if true */
bool place_find(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, struct place *ret);

/* As place_find(), on the nodes that are up, if all of them were idle. */
bool place_empty(const struct policy_node *nodes, size_t n,
                 const struct policy_job *job, struct place *ret);

/* Whether the job has a placement on these nodes if all of them were idle.
 * in   with_down  also count the nodes that are down, and the classes that are
 *      closed for a while */
bool place_ever(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, bool with_down);

/* Takes the GPUs of p, which must fit. out ret_at [p.nodes] node indexes */
void place_take(struct policy_node *nodes, size_t n, struct place p,
                int32_t *ret_at);

/* The same with the node `first` as one of the nodes. False: `first`, or the
 * other nodes, have no room, and nothing is taken. */
bool place_take_on(struct policy_node *nodes, size_t n, struct place p,
                   size_t first, int32_t *ret_at);

/* Takes (sign -1) or releases (sign 1) the GPUs of p on each node of at[]. */
void place_add(struct policy_node *nodes, const int32_t *at, struct place p,
               int32_t sign);

#endif
