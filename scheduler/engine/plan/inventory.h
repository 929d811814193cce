/* inventory.h - the last inventory of nodes, their classes, and the buffers of
 * a view.
 */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_INVENTORY_H
#define MGPU_SCHEDULER_ENGINE_PLAN_INVENTORY_H

#include "scheduler/engine/engine.h"

struct engine;
struct job_spec;

/* Classes of nodes; see node_classes.c. */
struct node_classes {
    int32_t n;
    size_t first[POLICY_CLASSES]; /* the first node of each class */
    int32_t *of;                  /* owned; class by node */
    size_t *by_name; /* owned; hash table of 1 + the first node of a name */
    size_t n_by_name;
    bool has_partitions, has_default;
    bool has_next; /* a reservation is to come on some node */

    /* By type of GPU, see mixed_gpu_nodes.c. */
    size_t n_types;
    size_t of_type[POLICY_CLASSES]; /* the first node of each type */
    uint64_t types[POLICY_CLASSES]; /* the classes of each type */
    bool has_parts;
};

/* A view of a long queue takes tens of megabytes. The engine keeps the buffers
 * from one view to the next: the page faults of new ones take half of the time
 * of a plan. */
struct eng_buffers {
    struct policy_job *jobs;           /* owned, like the decisions; [cap] */
    struct policy_decision *decisions; /* [cap] */
    size_t cap;
};

/* Whether a partition of the job takes its time limit, nodes, account and QOS,
 * as far as the allocator tells. err ERR_INVAL */
int eng_partition_check(const struct engine *e, const struct job *job,
                        struct error *err) MUST_CHECK;
/* The time limit that Slurm gives a job that names none: the shortest of its
 * partitions. Returns seconds, or INFINITY
 * out  ret  the partition */
double eng_partition_limit_s(const struct engine *e, const struct job *job,
                             const char **ret);
/* Removes tasks beyond their sweep's max_parallel from the view, and sets their
 * reason; the others are eligible since their turn. `jobs` are those of v;
 * returns how many are left. */
size_t eng_cap_sweeps(struct engine *e, const struct policy_view *v,
                      struct policy_job *jobs);
/* Which jobs have the same speed on the same devices; see workload_class.c.
 * own  *ret: the caller frees */
int eng_class(const struct job_spec *spec, char **ret,
              struct error *err) MUST_CHECK;

#endif
