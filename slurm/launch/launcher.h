/* launcher.h - run mpirun, srun or a single rank as a child, and copy its
 * output to a log.
 *
 * The callers are mgpu-shepherd and mgpu-batch, which have no other work: they
 * reap children and poll the descriptors themselves.
 *
 * A rank's standard output is a terminal, as under mpirun, so that a program's
 * output reaches the log after each line, and not after each 4 KiB. The
 * terminal has no input, translates nothing, and is no process's controlling
 * terminal. If no terminal can be opened, a pipe replaces it. */
#ifndef MGPU_SLURM_LAUNCH_LAUNCHER_H
#define MGPU_SLURM_LAUNCH_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "jobs/base/error.h"
#include "slurm/launch/attempt_dir.h"
#include "slurm/launch/rank_output.h"

enum launcher_kind {
    LAUNCHES_RANKS,
    IS_THE_RANK,
};

struct launcher {
    pid_t pid;
    int out_fd; /* output of the launcher and its ranks; -1 before the start,
                 * and after the end */
    int tty_fd; /* a rank's standard output, if it is a terminal; else -1 */
};

/* Starts the launcher in a process group of its own, with the original signal
 * mask and all signals unblocked, except that a user's signals wait until a
 * rank unblocks them (jobs/base/signals.h); it inherits our standard input. If
 * this process dies, the kernel sends a launcher SIGTERM, which ends its ranks;
 * it sends a rank SIGKILL, because nothing else would end a slow one. A program
 * that cannot be run prints the error, after `who`, and exits with 127.
 *
 * out  *ret   untouched on failure */
int launcher_start(const char *who, char *const *argv, enum launcher_kind kind,
                   struct launcher *ret, struct error *err) MUST_CHECK;

/* Copies available output, a bounded amount, so that the caller's other
 * descriptors get their turn, too. A full log or disk stops nothing. */
void launcher_copy(struct launcher *l, struct outputs *to);

/* Copies the rest that a launcher which has ended left in the pipe, a bounded
 * amount, since a process that escaped may write for ever; then closes. */
void launcher_drain(struct launcher *l, struct outputs *to);

/* Translates a wait(2) status; leaves when_s alone. A rank that itself exits
 * with 128 + N looks like one that signal N ended, as in a shell. */
void launcher_exit(int wait_status, struct attempt_exit *ret);

#endif
