/* rank_output.h - copy the output of ranks and their launcher to the bounded
 * log (jobs/log/bounded_log.h) and to the index of its times
 * (jobs/log/log_times.h).
 *
 * With one rank the launcher's output is the log, byte for byte. With several,
 * each line begins with its rank's label, "[3] ". The launchers' own labels do
 * not suffice: mpirun --tag-output (Open MPI 4.1.4) puts them before whatever
 * it reads, so that they stand in the middle of lines, and drops output that no
 * longer fits with them: of 20,000 short lines it forwarded 2,730. So each rank
 * has a named pipe, `out.<rank>` in the attempt's directory, which mgpu-worker
 * makes its standard output and error (jobs/log/rank_pipe.h). No process stands
 * between: the pipe keeps what a rank printed before it died. It is read on
 * this machine only. A rank on another machine finds no reader, and its output
 * goes through the launcher: srun then labels it, and that label becomes ours.
 *
 * Lines stay whole: an incomplete line is held back until it ends, another half
 * second has passed or 4 KiB have come. A line without a label comes from the
 * launcher, whose reports on failed ranks are left out (mpirun_report.h). */
#ifndef MGPU_SLURM_LAUNCH_RANK_OUTPUT_H
#define MGPU_SLURM_LAUNCH_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "jobs/spec/spec_run.h"

struct outputs;

struct outputs_conf {
    const char *dir;       /* copied */
    struct spec_logs logs; /* of the job's specification */
    int32_t ranks;         /* total number */
    int32_t here;          /* ranks 0 to here - 1 are on this machine */
    bool has_labels;       /* the launcher's output has srun's labels */
};

/* Begins a new log. If pipes cannot be created (a file system without them, too
 * many ranks), lines have no labels. */
int outputs_create(const struct outputs_conf *conf, struct outputs **ret,
                   struct error *err) MUST_CHECK;
/* Readable when outputs_copy() has work; -1: never. */
int outputs_fd(const struct outputs *o);
/* Copies what the ranks' pipes hold, a bounded amount. */
void outputs_copy(struct outputs *o);
/* Adds output of the launcher, or a message of the caller's own. */
void outputs_add(struct outputs *o, const char *p, size_t n);
/* Whether so much has come that the attempt is to end (logs.on_limit). */
bool outputs_are_over(const struct outputs *o);
/* Writes held-back lines that are due. Returns in how many milliseconds to call
 * it again; -1: after new output. */
int outputs_rest(struct outputs *o);
/* Copies what ended ranks left in their pipes, a bounded amount. */
void outputs_drain(struct outputs *o);
/* Removes the pipes. NULL is fine. */
void outputs_destroy(struct outputs *o);

#endif
