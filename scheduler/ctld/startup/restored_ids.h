/* restored_ids.h - which ids a state that was put back must not give again.
 *
 * Since a backup was made jobs were submitted of which it knows nothing. People
 * and scripts know them by their ids, and Slurm by tags that are made of them.
 */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_RESTORED_IDS_H
#define MGPU_SCHEDULER_CTLD_STARTUP_RESTORED_IDS_H

#include <stdint.h>

#include "jobs/base/error.h"

/* The first id for the next job: above last_id, above every job that has a
 * directory in jobs_dir, and after a restore (the file "backup" of the copy is
 * there) a hundred thousand further. When the store has lost its end, which
 * db/high_water.h knows of, above every job that was stored. That is kept in
 * the file "first_id", and said in the log. in   last_id, last_seq  of the log
 * err  of the files */
int restored_first_id(const char *state_dir, const char *jobs_dir,
                      uint64_t last_id, uint64_t last_seq, uint64_t *ret,
                      struct error *err) MUST_CHECK;

#endif
