/* sample_times.h - limit samples during training to a share of the run's
 * time. */
#ifndef MGPU_WORKER_TRAIN_SAMPLE_TIMES_H
#define MGPU_WORKER_TRAIN_SAMPLE_TIMES_H

#include <stdbool.h>

#include "jobs/spec/spec.h"

#define SAMPLE_SHARE 0.05

struct sample_times {
    struct spec_every every;
    bool is_on, has_said;   /* has_said: that some are left out */
    double begin_s, last_s; /* of the run; when the last ones were taken */
    double spent_s, cost_s; /* by all; by the last ones */
};

static inline void sample_times_begin(struct sample_times *s, double now_s)
{
    s->begin_s = s->last_s = now_s;
}

/* Allows samples if all, and these at the cost of the last ones, take at most
 * their share of the time. The cost of the first ones is not known: they are
 * allowed. */
static inline bool sample_times_allow(const struct sample_times *s,
                                      double now_s)
{
    const double all_s = now_s - s->begin_s + s->cost_s;
    return s->spent_s + s->cost_s <= SAMPLE_SHARE * all_s;
}

static inline void sample_times_add(struct sample_times *s, double begin_s,
                                    double end_s)
{
    s->last_s = end_s;
    s->cost_s = end_s - begin_s;
    s->spent_s += s->cost_s;
}

#endif
