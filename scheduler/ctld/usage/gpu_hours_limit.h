/* gpu_hours_limit.h - limits.gpu_hours: a user or an account that has used its
 * GPU-hours starts no job until enough of them are older than the window. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_GPU_HOURS_LIMIT_H
#define MGPU_SCHEDULER_CTLD_USAGE_GPU_HOURS_LIMIT_H

#include <stddef.h>

#include "db/event_store.h"
#include "jobs/base/error.h"
#include "jobs/conf/gpu_hours.h"

struct ctld;
struct job;

/* GPUs that an attempt had; to_s NAN: it has them still. */
struct hours_interval {
    int32_t gpus;
    double from_s, to_s;
};

/* GPU-hours from at_s - window_s to at_s, if an attempt that has not ended ends
 * at now_s. */
double hours_used(const struct hours_interval *v, size_t n, double window_s,
                  double now_s, double at_s);
/* When the use is below the limit again at the earliest; now_s: it is. */
double hours_free_at(const struct hours_interval *v, size_t n,
                     const struct gpu_hours_limit *l, double now_s);
/* When the attempts that have not ended will have used the limit up; INFINITY:
 * there is none, or it is used up. */
double hours_spent_at(const struct hours_interval *v, size_t n,
                      const struct gpu_hours_limit *l, double now_s);

/* Reads what was used, and tells the engine before its first plan. */
int gpu_hours_limit_init(struct ctld *c, struct error *err) MUST_CHECK;
void gpu_hours_limit_clear(struct ctld *c); /* after the threads have ended */
/* Called for each durable event. */
void gpu_hours_limit_note(struct ctld *c, const struct store_event *ev,
                          const struct job *job);
/* After the configuration has changed. */
void gpu_hours_limit_restart(struct ctld *c);

#endif
