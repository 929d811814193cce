/* set_clock.h - a wall clock for the rig that a test sets, and says of whether
 * it is synchronised. */
#ifndef MGPU_TESTS_UNIT_CTLD_SET_CLOCK_H
#define MGPU_TESTS_UNIT_CTLD_SET_CLOCK_H

#include <stdatomic.h>

#include "jobs/base/clock.h"
#include "tests/unit/ctld/rig.h"

enum { DAY_S = 86400 };

static atomic_llong ahead_s; /* of the real one */
static atomic_bool is_synced = true;

static inline double set_now_s(const struct clock *c)
{
    (void)c;
    return clock_real.now_s(&clock_real);
}

static inline double set_wall_s(const struct clock *c)
{
    (void)c;
    return clock_real.wall_s(&clock_real) + (double)atomic_load(&ahead_s);
}

static inline bool set_is_synced(const struct clock *c)
{
    (void)c;
    return atomic_load(&is_synced);
}

static const struct clock clock_set = {
    .now_s = set_now_s, .wall_s = set_wall_s, .is_synced = set_is_synced};

static inline void set_days(long long days)
{
    atomic_store(&ahead_s, days * DAY_S);
}

/* Between two starts of the daemon: so many days pass. */
static inline void pass_days(int days)
{
    atomic_fetch_add(&ahead_s, (long long)days * DAY_S);
}

#endif
