/* command.h - a job of kind command, on one rank: any program as a child.
 *
 * No shell is used. The child is the leader of a process group of its own,
 * gets a clean environment (mgpu-worker(8) lists it), and reports metrics by
 * appending JSON Lines to $MGPU_METRICS, which this rank follows.
 *
 * A SIGTERM goes to the child's whole group, a SIGKILL after the grace. What
 * the child leaves behind when it ends, in its group or not, is killed.
 */
#ifndef MGPU_WORKER_PROCESS_COMMAND_H
#define MGPU_WORKER_PROCESS_COMMAND_H

#include <signal.h>

#include "worker/process/gpu_use.h"
#include "worker/run_config.h"

struct command_env {
    const struct worker_job *job;
    const struct spec_map *secrets;
    struct comm *comm; /* where we are; no collective is used */
    struct reporter *reporter;
    const volatile sig_atomic_t *stop;      /* not 0: the number of a signal */
    const volatile sig_atomic_t *has_heard; /* not 0: so did the program */
    bool is_slurm; /* Slurm may signal us and the program alike */
    /* The child's process group while it runs, else 0: for a handler that
     * passes other signals on. */
    volatile sig_atomic_t *group;
};

struct command_result {
    int exit_code; /* 128 + N: ended by signal N */
    bool was_stopped, was_fenced;
    int64_t bad_lines; /* of $MGPU_METRICS */
    struct gpu_used gpus;
    char why[240]; /* "" for exit code 0 */
};

/* Starts the program in the specification's workdir, or else in the attempt's
 * directory.
 *
 * err  ERR_NOTFOUND no such program or directory (exit code 127), ERR_DENIED
 *      or another: it cannot be run, or not there (126); ERR_IO the metrics
 * file; ERR_UNAVAIL this rank has no GPU of its own */
int command_run(const struct command_env *env, struct command_result *ret,
                struct error *err) MUST_CHECK;

#endif
