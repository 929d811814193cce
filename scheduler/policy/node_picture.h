/* node_picture.h - a copy of the nodes for many searches.
 *
 * A plan of goodput tries hundreds of placements on one picture of the nodes. A
 * search of placement.h looks at every node; here a set of bits for each number
 * of free GPUs leads to the nodes that fit best. The answers are the same.
 *
 * Without sets if a machine has parts (policy.h), because a change of one part
 * changes what is free on the others. Every search is placement.h's then.
 */
#ifndef MGPU_SCHEDULER_POLICY_NODE_PICTURE_H
#define MGPU_SCHEDULER_POLICY_NODE_PICTURE_H

#include "scheduler/policy/placement.h"

struct node_picture {          /* all zero: not there */
    struct policy_node *nodes; /* owned; [n]. Change gpus_free by the functions
                                  below only */
    size_t n;
    uint64_t *bits; /* owned; [n_levels][n_words]; NULL: no sets. Nodes that
                       are up, the set of a node is its free GPUs */
    size_t n_words;
    int32_t n_levels;
};

/* A picture of these nodes. err ERR_NOMEM; clear it in any case */
int picture_init(struct node_picture *p, const struct policy_node *nodes,
                 size_t n, struct error *err) MUST_CHECK;
void picture_clear(struct node_picture *p);
/* in  from  a picture of the same nodes */
void picture_copy(struct node_picture *to, const struct node_picture *from);

/* Takes the GPUs of the place on the nodes where place_take() would take them.
 * False: they are not free, and nothing is taken. out ret_at [place.nodes] */
bool picture_take(struct node_picture *p, struct place place, int32_t *ret_at);
/* As place_add(). */
void picture_add(struct node_picture *p, const int32_t *at, struct place place,
                 int32_t sign);

#endif
