/* fit_jobs.h - make the recorded jobs of a trace fit a cluster. */
#ifndef MGPU_SCHEDULER_SIM_FIT_JOBS_H
#define MGPU_SCHEDULER_SIM_FIT_JOBS_H

#include "scheduler/sim/run/sim_cluster.h"

/* A job whose GPUs no nodes share evenly gets the next larger size that some
 * do: mgpu gives each node of a job the same number. A job that is larger than
 * the cluster leaves the trace. Both are counted in t->left_out. */
void fit_jobs(const struct sim_cluster *c, struct sim_trace *t);

#endif
