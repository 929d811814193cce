/* set_clock.h - a wall clock that is set, for the rig; and lives that nobody
 * has to wait for. */
#ifndef MGPU_TESTS_UNIT_CTLD_SET_CLOCK_H
#define MGPU_TESTS_UNIT_CTLD_SET_CLOCK_H

#include <math.h>
#include <stdatomic.h>

#include "jobs/base/clock.h"
#include "tests/unit/ctld/rig.h"

enum { DAY_S = 86400 };

static atomic_llong ahead_s; /* of the real one */
static atomic_bool is_synced;

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

/* Between two lives: as if the last one had gone on for so many days, and then
 * ended. The clock went with it. */
static inline void live_on(const struct rig *r, int days)
{
    struct store_span at[STORE_SPANS_MAX];
    struct error err = ERROR_INIT;
    struct store *s = NULL;
    size_t n = 0;
    if (store_sqlite_open(r->dir, &s, &err) < 0 ||
        s->ops->spans(s, at, &n, &err) < 0 || n == 0) {
        tap_diag("no span: %s", err.msg);
        exit(1);
    }
    at[n - 1].end_s += (double)days * DAY_S;
    if (s->ops->put_span(s, &at[n - 1], &err) < 0)
        exit(1);
    s->ops->destroy(s);
    atomic_fetch_add(&ahead_s, (long long)days * DAY_S);
}

#endif
