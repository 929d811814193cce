/* rank_output.h - what an attempt's ranks and their launcher print, on its way
 * to the bounded log (jobs/log/bounded_log.h) and to what tells its times
 * (jobs/log/log_times.h).
 *
 * Of one rank the launcher's output is the log, byte for byte. Of several,
 * each line begins with its rank's label, "[3] ". The launchers' own labels
 * will not do: mpirun --tag-output (Open MPI 4.1.4) puts them before whatever
 * it reads, so that they stand in the middle of lines, and throws away what no
 * longer fits with them: of 20,000 short lines it passed on 2,730. So each
 * rank has a pipe with a name, `out.<rank>` in the attempt's directory, which
 * mgpu-worker makes its standard output and error (jobs/log/rank_pipe.h).
 * Nobody stands between: what a rank printed before it died is in the pipe. It
 * is read on this machine alone; a rank on another finds no reader, and goes
 * through the launcher: srun then labels it, and that label becomes ours.
 *
 * Lines stay whole: the beginning of one is held back for its end, until
 * another half second has passed or 4 KiB have come. What is without a label
 * is the launcher's.
 */
#ifndef MGPU_SLURM_LAUNCH_RANK_OUTPUT_H
#define MGPU_SLURM_LAUNCH_RANK_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct outputs;

struct outputs_conf {
    const char *dir;   /* copied */
    int64_t max_bytes; /* of the log */
    int32_t ranks;     /* all of them */
    int32_t here;      /* of ranks 0, 1, .. so many are on this machine */
    bool has_labels;   /* the launcher's output has srun's */
    bool is_plain;     /* none are wanted */
};

/* Begins a new log. Where there can be no pipes (a file system without, too
 * many ranks), lines have no labels. */
int outputs_create(const struct outputs_conf *conf, struct outputs **ret,
                   struct error *err) MUST_CHECK;
/* Readable when outputs_copy() has something to do; -1: never. */
int outputs_fd(const struct outputs *o);
/* What the ranks' pipes hold, or a part of it. */
void outputs_copy(struct outputs *o);
/* What the launcher printed, or one has to say oneself. */
void outputs_add(struct outputs *o, const char *p, size_t n);
/* More than max_bytes have come. */
bool outputs_are_over(const struct outputs *o);
/* To be called now and then. Returns after how many milliseconds again; -1:
 * when there is something new. */
int outputs_rest(struct outputs *o);
/* The rest of what ranks that have ended left in their pipes, within reason. */
void outputs_drain(struct outputs *o);
/* Takes the pipes away. NULL is fine. */
void outputs_destroy(struct outputs *o);

#endif
