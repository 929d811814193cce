/* job_watch.h - streams of changes of jobs: GET /v1/watch. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_WATCH_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;

int job_watch_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Ends all streams. */
void job_watch_end(struct ctld *c);
/* Ends all streams, and frees. */
void job_watch_clear(struct ctld *c);
/* Sends the job to its watchers soon. */
void job_watch_changed(struct ctld *c, uint64_t job);
/* The event seq of the job is durable. */
void job_watch_saw_event(struct ctld *c, uint64_t job, uint64_t seq);
/* The job, which has ended, leaves the memory. */
void job_watch_leaves(struct ctld *c, uint64_t job);
/* The number of open streams. */
size_t job_watch_count(const struct ctld *c);

#endif
