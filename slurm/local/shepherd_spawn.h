/* shepherd_spawn.h - start a shepherd, hold its fate until told otherwise. */
#ifndef MGPU_SLURM_LOCAL_SHEPHERD_SPAWN_H
#define MGPU_SLURM_LOCAL_SHEPHERD_SPAWN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct shepherd_spawn {
    const char *program, *mpirun; /* alloc_local_conf has the words */
    const char *dir, *worker;
    int32_t ranks, threads;
    int64_t log_max_bytes;
    bool log_fails, log_is_plain;
    int64_t max_fds;  /* its soft RLIMIT_NOFILE; 0: as the caller's */
    const char *cuda; /* CUDA_VISIBLE_DEVICES */
    int lock_fd;      /* the locked lock file; stays the caller's */
};

/* Starts the program and lets it go. When this returns 0 the attempt runs,
 * also if the caller dies at once; when it returns -1, or the caller dies
 * before, nothing was run.
 *
 * out  ret_pid, ret_pidfd  a child, to be waited for; the caller closes
 */
int shepherd_spawn(const struct shepherd_spawn *s, pid_t *ret_pid,
                   int *ret_pidfd, struct error *err) MUST_CHECK;

#endif
