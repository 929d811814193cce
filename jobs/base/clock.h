/* clock.h - the clock seam: monotonic and wall time, real or virtual.
 *
 * Durations and deadlines use now_s (monotonic: a changed wall clock ends no
 * job); time stamps for display use wall_s (seconds since 1970, UTC). */
#ifndef MGPU_BASE_CLOCK_H
#define MGPU_BASE_CLOCK_H

#include <stdbool.h>

struct clock {
    double (*now_s)(const struct clock *c);
    double (*wall_s)(const struct clock *c);
    /* Whether the wall clock is synchronized from outside, by NTP or similar,
     * as the kernel reports it. NULL: it is not. */
    bool (*is_synced)(const struct clock *c);
};

extern const struct clock clock_real;

/* A clock that moves only on request; wall_s is now_s + epoch_s. */
struct clock_virtual {
    struct clock base; /* &v.base is the clock for users */
    double t_s;
    double epoch_s;
};

void clock_virtual_init(struct clock_virtual *v, double t_s, double epoch_s);

#endif
