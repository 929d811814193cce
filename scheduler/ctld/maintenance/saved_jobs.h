/* saved_jobs.h - the jobs in memory as a file, for when the database is lost.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_SAVED_JOBS_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_SAVED_JOBS_H

#include "db/metric_store.h"
#include "jobs/base/error.h"

struct ctld;

/* Writes state.db.rescued-<UTC time>.jsonl into the state directory, 0600: a
 * line for each job that has not ended, in the order of their numbers, with
 * what a person needs to submit it again:
 *   {"id","user","uid","name","state","submitted","key","dir","spec":{..}}
 * Complete, or not there.
 * out  ret_file, ret_n  its name, and the number of jobs
 * err  of the disk */
int saved_jobs_write(const struct ctld *c, char ret_file[STORE_FILE_CAP],
                     size_t *ret_n, struct error *err) MUST_CHECK;

#endif
