/* hours_window.c - GPU-hours within a window that slides. */
#include <math.h>

#include "scheduler/ctld/usage/gpu_hours_limit.h"
#include "tests/tap.h"

enum { HOUR = 3600 };

static bool is_near(double a, double b)
{
    return fabs(a - b) < 1e-3;
}

int main(void)
{
    /* 4 GPUs from hour 0 to 2, 1 GPU since hour 8. It is hour 10. */
    const struct hours_interval v[] = {
        {.gpus = 4, .from_s = 0, .to_s = 2 * HOUR},
        {.gpus = 1, .from_s = 8 * HOUR, .to_s = NAN},
    };
    const double now = 10 * HOUR, week = 9 * HOUR;
    struct gpu_hours_limit l = {.hours = 5, .window_s = week};

    ok(is_near(hours_used(v, 2, week, now, now), 6),
       "of the first, one hour is in the window of nine");
    ok(is_near(hours_used(v, 2, week, now, now + HOUR), 2), "then none");
    ok(fabs(hours_free_at(v, 2, &l, now) - (now + 900)) < 1,
       "a quarter of an hour of four GPUs is one too many");
    l.hours = 6;
    ok(hours_free_at(v, 2, &l, now) > now, "6 of 6 is used up");
    l.hours = 8;
    ok(is_near(hours_free_at(v, 2, &l, now), now), "6 of 8 is not");
    ok(is_near(hours_spent_at(v, 2, &l, now), now + 2 * HOUR),
       "the one that runs uses the rest in two hours");
    ok(isinf(hours_spent_at(v, 1, &l, now)), "nothing runs, nothing is spent");
    l.hours = 5;
    ok(isinf(hours_spent_at(v, 2, &l, now)), "nor what is spent already");
    return tap_done();
}
