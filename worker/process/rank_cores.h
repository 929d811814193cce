/* rank_cores.h - give each rank of a node cores of its own.
 *
 * The local allocator's mpirun binds nothing, because two attempts would bind
 * to the same first cores. With local.bind the cores of an attempt are its own,
 * and the ranks divide them: otherwise the kernel often has two of them on one
 * core while another is idle, and all ranks wait for the slowest.
 */
#ifndef MGPU_WORKER_PROCESS_RANK_CORES_H
#define MGPU_WORKER_PROCESS_RANK_CORES_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/comm/comm.h"

/* How many are this rank's if those of the node have equal shares, whichever
 * each of them is bound to; 0: not known. */
double rank_cores_share(const struct comm *c);

/* The cores of one of local_size ranks: equal shares, in order. False: they
 * cannot be divided equally. */
bool rank_cores(const cpu_set_t *all, int32_t local_rank, int32_t local_size,
                cpu_set_t *ret);

/* Binds this thread, and those that it will start, if the variable
 * RANK_CORES_ENV is set. True: this rank shares its cores with no other. */
#define RANK_CORES_ENV "MGPU_BIND_RANKS"
bool rank_cores_bind(int32_t local_rank, int32_t local_size);

#endif
