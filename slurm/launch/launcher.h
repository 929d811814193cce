/* launcher.h - mpirun or srun, or the only rank itself, as a child, its output
 * on the way to a log.
 *
 * For mgpu-shepherd and mgpu-batch, which have nothing else to do: they
 * reap, and watch the descriptors, themselves.
 *
 * A rank's standard output is a terminal, as under mpirun, so that what a
 * program prints is in the log when its line ends, and not when 4 KiB have
 * come together. Nobody types there, it translates nothing, and it is nobody's
 * controlling terminal. Where none is to be had it is a pipe.
 */
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
    int out_fd; /* what it and its ranks print; -1 before, and after its end */
    int tty_fd; /* a rank's standard output, if that is a terminal; else -1 */
};

/* In a process group of its own, with every signal unblocked and as it was
 * at first, but that a user's wait until a rank lets them in
 * (jobs/base/signals.h); its standard input is ours. If this process dies, a
 * launcher gets a SIGTERM and ends its ranks; a rank, which nobody would end
 * if it took its time, SIGKILL. A program that cannot be run says so on its
 * output, after `who`, and exits with 127.
 *
 * out  *ret   untouched on failure
 */
int launcher_start(const char *who, char *const *argv, enum launcher_kind kind,
                   struct launcher *ret, struct error *err) MUST_CHECK;

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
