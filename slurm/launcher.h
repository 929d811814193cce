/* launcher.h - mpirun or srun as a child, its output on the way to a log.
 *
 * For mgpu-shepherd and mgpu-batch, which have nothing else to do: they
 * reap, and watch the descriptor, themselves.
 */
#ifndef MGPU_SLURM_LAUNCHER_H
#define MGPU_SLURM_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/base/error.h"
#include "slurm/attempt_dir.h"
#include "slurm/outputs.h"

struct launcher {
    pid_t pid;
    int out_fd; /* what it and its ranks print; -1 before, and after its end */
};

/* In a process group of its own, with every signal unblocked and as it was
 * at first, and with SIGTERM if this process dies; its standard input is
 * ours. A program that cannot be run says so on its output, after `who`, and
 * exits with 127.
 *
 * out  *ret   untouched on failure
 */
int launcher_start(const char *who, char *const *argv, struct launcher *ret,
                   struct error *err) MUST_CHECK;

/* What is there to be read, or a part of it, so that the caller's other
 * descriptors have a turn, too. A full log or disk stops nothing. */
void launcher_copy(struct launcher *l, struct outputs *to);

/* The rest of what a launcher that has ended has left in the pipe, within
 * reason, for a process that escaped may write for ever; then closes. */
void launcher_drain(struct launcher *l, struct outputs *to);

/* What its wait(2) status says about the ranks; when_s is left alone. A rank
 * that itself exits with 128 + N cannot be told from one that signal N ended,
 * as in a shell. */
void launcher_exit(int wait_status, struct attempt_exit *ret);

#endif
