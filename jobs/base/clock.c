/* clock.c - the system's clock and the virtual clock; the only file that reads
 * the system's time. */
#include "jobs/base/clock.h"

#include <sys/timex.h>
#include <time.h>

static double read_s(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static double real_now(const struct clock *c)
{
    (void)c;
    return read_s(CLOCK_MONOTONIC);
}

static double real_wall(const struct clock *c)
{
    (void)c;
    return read_s(CLOCK_REALTIME);
}

static bool real_is_synced(const struct clock *c)
{
    struct timex t = {.modes = 0}; /* only reads */
    (void)c;
    return adjtimex(&t) >= 0 && !(t.status & STA_UNSYNC);
}

const struct clock clock_real = {
    .now_s = real_now,
    .wall_s = real_wall,
    .is_synced = real_is_synced,
};

static double virtual_now(const struct clock *c)
{
    return ((const struct clock_virtual *)(const void *)c)->t_s;
}

static double virtual_wall(const struct clock *c)
{
    const struct clock_virtual *v = (const void *)c;
    return v->epoch_s + v->t_s;
}

void clock_virtual_init(struct clock_virtual *v, double t_s, double epoch_s)
{
    *v = (struct clock_virtual){
        .base = {.now_s = virtual_now, .wall_s = virtual_wall},
        .t_s = t_s,
        .epoch_s = epoch_s,
    };
}
