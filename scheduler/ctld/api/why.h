/* why.h - explain why a job is pending. */
#ifndef MGPU_SCHEDULER_CTLD_API_WHY_H
#define MGPU_SCHEDULER_CTLD_API_WHY_H

#include <jansson.h>

#include "jobs/base/error.h"

struct ctld;
struct job;

/* mgpu.why/1; NULL: err says why. */
json_t *why_json(const struct ctld *c, const struct job *job,
                 struct error *err);

#endif
