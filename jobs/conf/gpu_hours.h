/* gpu_hours.h - a value of limits.gpu_hours in mgpu.yaml: "100 per 7d". */
#ifndef MGPU_JOBS_CONF_GPU_HOURS_H
#define MGPU_JOBS_CONF_GPU_HOURS_H

#include "jobs/base/error.h"

struct gpu_hours_limit {
    double hours;    /* above 0 */
    double window_s; /* 1 hour to 366 days: the last so many seconds count */
};

/* out  ret  untouched on failure
 * err  ERR_INVAL what is expected */
int gpu_hours_parse(const char *text, struct gpu_hours_limit *ret,
                    struct error *err) MUST_CHECK;

#endif
