/* spool_drain.h - read the spools of an attempt that is about to end. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_SPOOL_DRAIN_H
#define MGPU_SCHEDULER_CTLD_INGEST_SPOOL_DRAIN_H

#include "jobs/base/error.h"

struct job;

/* The callback of engine_on_exit(), with struct ctld as arg.
 * err  ERR_BUSY the spools are not read yet */
int spool_drain_on_exit(void *arg, const struct job *job, struct error *err);

#endif
