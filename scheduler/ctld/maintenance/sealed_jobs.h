/* sealed_jobs.h - jobs with values of env that an older daemon sealed. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_SEALED_JOBS_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_SEALED_JOBS_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;

struct ctld_sealed {
    uint64_t *jobs; /* owned; ids [n] */
    size_t n;
};

/* Finds them; the engine has replayed. */
int ctld_sealed_init(struct ctld *c, struct error *err) MUST_CHECK;
void ctld_sealed_clear(struct ctld *c);
/* Holds those that are queued. Before each step: a job may be released. */
void ctld_sealed_hold(struct ctld *c);

#endif
