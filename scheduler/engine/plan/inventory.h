/* inventory.h - what the engine keeps of nodes and of the last view. */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_INVENTORY_H
#define MGPU_SCHEDULER_ENGINE_PLAN_INVENTORY_H

#include "scheduler/engine/engine.h"

struct engine;
struct job_spec;

/* Kinds of nodes; see node_classes.c. */
struct node_classes {
    int32_t n;
    size_t first[POLICY_CLASSES]; /* a node of each */
    int32_t *of;                  /* owned; by node */
    bool has_partitions, has_default;

    /* By type of GPU, see mixed_gpu_nodes.c. */
    size_t n_types;
    size_t of_type[POLICY_CLASSES]; /* a node of each */
    uint64_t types[POLICY_CLASSES]; /* the classes of each */
    bool has_parts;
};

/* A view of a long queue takes tens of megabytes. The engine keeps them from
 * one view to the next: the page faults of new ones take half of a plan. */
struct eng_buffers {
    struct policy_job *jobs;    /* owned, as the wishes; [cap] */
    struct policy_wish *wishes; /* [cap] */
    size_t cap;
};

/* Tasks beyond their sweep's max_parallel leave the view, with a reason. In
 * the policy's order; returns how many are left. */
size_t eng_cap_sweeps(struct engine *e, struct policy_job *jobs, size_t n);
/* Which jobs run at the same speed on the same devices; see workload_class.c.
 * own  *ret: the caller frees */
int eng_class(const struct job_spec *spec, char **ret,
              struct error *err) MUST_CHECK;

#endif
