/* place.h - does a job fit on these nodes, and where would it go?
 *
 * A placement is `nodes` times `per_node`: the same number of GPUs on each
 * of its nodes. The policies choose the smallest number of GPUs of the job's
 * range that fits, on as few nodes as the range allows; nodes are taken best
 * fit (the fullest that still has room, then the lowest index), so that
 * whole nodes stay whole. Allocators are expected to place alike; one that
 * does not costs a reservation its exactness, never correctness, because the
 * next view shows where things really are.
 */
#ifndef MGPU_SCHEDULER_PLACE_H
#define MGPU_SCHEDULER_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/policy.h"

struct place {
    int32_t nodes, per_node;
};

/* True when gpus_free of the up nodes has room for p. */
bool place_fits(const struct policy_node *nodes, size_t n, struct place p);

/* The smallest placement of the job that fits. out  ret, when true */
bool place_find(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, struct place *ret);

/* As place_find, on these nodes when nothing runs on them.
 * in  with_down  also count the nodes that are down */
bool place_ever(const struct policy_node *nodes, size_t n,
                const struct policy_job *job, bool with_down);

/* Takes the GPUs of p, which fits. out  ret_at [p.nodes] node indexes */
void place_take(struct policy_node *nodes, size_t n, struct place p,
                int32_t *ret_at);

/* Takes (sign -1) or gives back (sign 1) per_node GPUs on each of at[]. */
void place_add(struct policy_node *nodes, const int32_t *at, struct place p,
               int32_t sign);

#endif
