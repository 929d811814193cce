/* allocator.h - the concrete allocators, and what they need, put together for
 * main.c. */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_ALLOCATOR_H
#define MGPU_SCHEDULER_CTLD_STARTUP_ALLOCATOR_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/conf/conf.h"
#include "slurm/alloc.h"
#include "slurm/as_user/files.h"

enum { COMPOSE_PATH_CAP = 480 };

/* Where jobs run, and how they are reached. */
struct compose {
    struct alloc *alloc;
    struct files *files;
    pid_t helper; /* a child that must live as long as the daemon; 0: none */
};

/* This machine's GPUs; without any, slots on its cores.
 *
 * in   slots    CPU slots, whatever there is; 0: as the configuration says
 *      max_fds  alloc_local_conf has the words
 * own  ret: compose_clear() */
int compose_local(const struct conf *conf, int32_t slots, int64_t max_fds,
                  struct compose *ret, struct error *err) MUST_CHECK;

/* Whom a daemon with `allocator: slurm` serves. */
enum slurm_mode {
    SLURM_PERSONAL, /* serves the user who started it */
    SLURM_SYSTEM    /* serves everybody: the helper stays root */
};

/* A helper that was started, and our ends of its sockets. */
struct slurm_helper {
    pid_t pid; /* 0: none */
    int rpc_fd, files_fd;
};

/* mgpu-slurm-helper, as the configuration says, with the privileges that we
 * have now.
 *
 * in   worker  mgpu-worker, absolute; log_fd  its standard error, or -1: ours
 * own  ret: to compose_slurm(), or slurm_helper_clear()
 * err  ERR_CONFIG a program is missing */
int slurm_helper_start(const struct conf *conf, enum slurm_mode mode,
                       const char *worker, int log_fd, struct slurm_helper *ret,
                       struct error *err) MUST_CHECK;
void slurm_helper_clear(struct slurm_helper *h); /* closes; zeroed is fine */

/* Slurm's nodes, behind that helper, which is taken over, also on failure. */
int compose_slurm(const struct conf *conf, struct slurm_helper *h,
                  struct compose *ret, struct error *err) MUST_CHECK;

void compose_clear(struct compose *c); /* zeroed is fine */

#endif
