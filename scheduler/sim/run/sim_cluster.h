/* sim_cluster.h - the nodes of a simulated cluster: "4x8:h100,2x4". */
#ifndef MGPU_SCHEDULER_SIM_RUN_SIM_CLUSTER_H
#define MGPU_SCHEDULER_SIM_RUN_SIM_CLUSTER_H

#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/sim/trace/speed.h"

enum { CLUSTER_GROUPS_MAX = 16, CLUSTER_TEXT_CAP = 640 };

struct sim_group {
    int32_t nodes, gpus; /* on each node */
    char type[32];       /* "": none named */
};

struct sim_cluster {
    char text[CLUSTER_TEXT_CAP]; /* as given */
    struct sim_group groups[CLUSTER_GROUPS_MAX];
    int32_t n_groups;
    int32_t nodes, gpus_total, gpus_max; /* the largest node */
};

/* err  ERR_USAGE with the allowed form */
int sim_cluster_parse(const char *text, struct sim_cluster *ret,
                      struct error *err) MUST_CHECK;
/* The group of node i, from 0. */
const struct sim_group *sim_cluster_group(const struct sim_cluster *c,
                                          int32_t i);
/* Where `gpus` GPUs, the same number on each node, take the fewest nodes of the
 * first group that holds them. nodes 0: they fit nowhere. */
struct speed_place sim_cluster_fit(const struct sim_cluster *c, int32_t gpus);

/* A job whose GPUs no nodes share evenly gets the next larger size that some
 * do: mgpu gives each node of a job the same number. A job that is larger than
 * the cluster leaves the trace. Both are counted in t->left_out. */
void sim_cluster_fit_jobs(const struct sim_cluster *c, struct sim_trace *t);

#endif
