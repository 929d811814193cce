/* mpirun_report.h - drop what mpirun prints about a rank that failed.
 *
 * Open MPI 5 has no --quiet. When a rank exits with a code or dies of a signal,
 * prterun prints a block like this one to its standard error (5.0.7):
 *
 *   ----------------------------------------------------------------------...
 *   prterun detected that one or more processes exited with non-zero status,
 *   thus causing the job to be terminated. The first process to do so was:
 *
 *      Process name: [prterun-node1-2123@1,0]
 *      Exit code:    3
 *   ----------------------------------------------------------------------...
 *
 * Two more begin with "prterun noticed that process rank" and "prterun has
 * exited due to process rank". Between them a warning of libevent's about epoll
 * may be. The daemon reports the same in its own words. Other messages have the
 * same form, and say why nothing was started: these stay.
 */
#ifndef MGPU_SLURM_LAUNCH_MPIRUN_REPORT_H
#define MGPU_SLURM_LAUNCH_MPIRUN_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* The first and the last line of a block. */
#define MPIRUN_REPORT_RULE                  \
    "-------------------------------------" \
    "-------------------------------------\n"

enum mpirun_report_state {
    MPIRUN_REPORT_NONE,
    MPIRUN_REPORT_RULED, /* a rule is held back: the next line decides */
    MPIRUN_REPORT_IN,
};

/* {0} is the start. */
struct mpirun_report {
    enum mpirun_report_state state;
    int lines; /* of the block */
};

/* Takes the next line of mpirun, or a piece of one that is too long or too old.
 *
 * out  has_rule  print MPIRUN_REPORT_RULE, which was held back, before it
 * Returns whether the line is not to be printed, or not yet. */
bool mpirun_report_drop(struct mpirun_report *r, const char *line, size_t n,
                        bool *has_rule);

#endif
