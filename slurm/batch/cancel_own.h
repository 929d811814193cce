/* cancel_own.h - the batch step of a cancelled attempt has Slurm cancel its own
 * job at the end, so that sacct shows CANCELLED, not FAILED. */
#ifndef MGPU_SLURM_BATCH_CANCEL_OWN_H
#define MGPU_SLURM_BATCH_CANCEL_OWN_H

#include <stddef.h>

#include "jobs/base/error.h"

/* Writes the path or name of scancel: beside srun if that is a path.
 * in   srun  NULL, "": unknown */
void cancel_own_program(const char *srun, char *ret, size_t cap);

/* Runs scancel for the job, and waits for it, at most 10 s.
 * in   srun  as above
 * err  it cannot be run, has failed, or takes longer */
int cancel_own(const char *srun, const char *slurm_id,
               struct error *err) MUST_CHECK;

#endif
