/* job_lookup.h - find jobs, in memory and archived. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_JOB_LOOKUP_H
#define MGPU_SCHEDULER_CTLD_REQUEST_JOB_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct http_exchange;
struct job;

/* The job, in memory or not; an archived one is read at once, on the loop. NULL
 * when there is none, or after a failure, which is logged. Valid until the next
 * step. */
const struct job *ctld_job_find_or_log(struct ctld *c, uint64_t id);
/* The job, if the caller may see all of it; NULL: it has replied with why. */
const struct job *ctld_job_of(struct ctld *c, struct http_exchange *x,
                              uint64_t id);
/* The same for the job that ":id" names. */
bool ctld_job_param(struct ctld *c, struct http_exchange *x,
                    const struct job **ret);
/* The first durable job in memory with an id > `after`, or NULL. */
const struct job *ctld_job_next(const struct ctld *c, uint64_t after);
/* The same without jobs that ended before since_s, as engine_next_since(). */
const struct job *ctld_job_next_since(const struct ctld *c, uint64_t after,
                                      double since_s);

#endif
