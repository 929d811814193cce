/* job_retention.h - remove archived jobs that ended long ago, with their
 * directories. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_JOB_RETENTION_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_JOB_RETENTION_H

#include "jobs/base/error.h"

struct ctld;

int job_retention_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Waits for its thread to end. */
void job_retention_stop(struct ctld *c);
/* After job_retention_stop(). */
void job_retention_clear(struct ctld *c);
/* Begins a pass, from the oldest job on. */
void job_retention_begin(struct ctld *c);
/* The daemon keeps jobs that ended since then; -INFINITY: all. */
double job_retention_since(struct ctld *c);

#endif
