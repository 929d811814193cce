/* self_checks.h - mgpu-sim --check and --bench: no trace is read. */
#ifndef MGPU_SCHEDULER_SIM_SELF_CHECKS_H
#define MGPU_SCHEDULER_SIM_SELF_CHECKS_H

#include "scheduler/sim/args.h"

/* Random worlds with the seeds from --seed on; prints one line.
 * err  the first invariant that does not hold, with its seed */
int self_check(const struct sim_args *a, struct error *err) MUST_CHECK;
/* Makes the trace and the cluster of --bench JOBSxGPUS, and sets how many
 * decisions are timed. err  ERR_USAGE */
int self_bench(struct sim_args *a, struct sim_cluster *ret_cluster,
               struct sim_trace *ret_trace, struct error *err) MUST_CHECK;

#endif
