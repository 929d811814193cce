/* metrics_retention.h - remove metric rows of jobs that ended long ago. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_METRICS_RETENTION_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_METRICS_RETENTION_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/error.h"

struct ctld;
struct job;

int metrics_retention_init(struct ctld *c, struct error *err) MUST_CHECK;
void metrics_retention_clear(struct ctld *c);
/* The configuration has changed: begins a new pass. Before _init() this does
 * nothing. */
void metrics_retention_restart(struct ctld *c);
/* A job that ended before this moment is older than age_s. In seconds since
 * 1970; -INFINITY while the kernel says that the clock is not synchronised: no
 * job is older then. */
double metrics_retention_before(const struct ctld *c, double age_s);
/* The job ended so long ago that its rows are removed, or will be soon. */
bool metrics_retention_has_removed(struct ctld *c, const struct job *j);
/* "kept" of mgpu.status/1 */
json_t *metrics_retention_json(struct ctld *c);

#endif
