/* shepherd_spawn.h - start a shepherd and let it go. */
#ifndef MGPU_SLURM_LOCAL_SHEPHERD_SPAWN_H
#define MGPU_SLURM_LOCAL_SHEPHERD_SPAWN_H

#include <sched.h>
#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct shepherd_spawn {
    const char *program, *mpirun; /* see alloc_local_conf */
    const char *dir, *worker;
    int32_t threads;        /* of each rank */
    int64_t max_fds;        /* its soft RLIMIT_NOFILE; 0: the caller's */
    const char *cuda;       /* CUDA_VISIBLE_DEVICES */
    const cpu_set_t *cores; /* that it may use; NULL: the caller's */
    int lock_fd;            /* the locked lock file; the caller keeps it */
};

/* Starts the program and lets it go. If this returns 0 the attempt runs, even
 * if the caller dies at once; if it returns -1, or the caller dies before,
 * nothing was run.
 *
 * out  ret_pid, ret_pidfd  a child; the caller waits for it and closes
 *      ret_pidfd */
int shepherd_spawn(const struct shepherd_spawn *s, pid_t *ret_pid,
                   int *ret_pidfd, struct error *err) MUST_CHECK;

#endif
