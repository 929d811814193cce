/* launch_env.h - the environment by which a process of a command finds the
 * others: the variables of `launch` in mgpu-job(5). */
#ifndef MGPU_WORKER_PROCESS_LAUNCH_ENV_H
#define MGPU_WORKER_PROCESS_LAUNCH_ENV_H

#include "jobs/spec/spec_run.h"
#include "worker/comm/comm.h"
#include "worker/process/env_list.h"
#include "worker/process/rendezvous.h"

/* Whether the processes get an address and port to meet at. */
bool launch_meets(enum spec_launch launch);

/* Checks the ranks against what this launch needs.
 * err  ERR_CONFIG several ranks on a node of launch: node; a program that
 *      wants to be an MPI process of ranks that are ones */
int launch_check(enum spec_launch launch, const struct comm *c,
                 struct error *err) MUST_CHECK;

/* The variables that have priority over the job's own.
 * in  r  read only if launch_meets() */
int launch_env(enum spec_launch launch, const struct comm *c,
               int32_t gpus_per_node, const struct rendezvous *r,
               struct env_list *e, struct error *err) MUST_CHECK;

/* Adds variables that the job's own override. With launch: mpi, the launcher's,
 * from which MPI_Init finds its world. With launch: node, the defaults of
 * torchrun's options, which it reads from PET_*. */
int launch_env_below(enum spec_launch launch, const struct comm *c,
                     int32_t gpus_per_node, const struct rendezvous *r,
                     struct env_list *e, struct error *err) MUST_CHECK;

#endif
