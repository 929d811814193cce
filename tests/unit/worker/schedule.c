/* schedule.c - the learning rate's factor, against torchtune's formula. */
#include "worker/schedule.h"

#include <math.h>

#include "tests/tap.h"

static void is_near(double got, double want, const char *what)
{
    ok(fabs(got - want) < 1e-15, "%s: %.17g", what, got);
}

int main(void)
{
    enum spec_schedule c = SCHEDULE_COSINE;
    is_near(schedule_factor(c, 0, 0, 100), 1, "no warm-up: starts at 1");
    is_near(schedule_factor(c, 50, 0, 100), 0.5, "half-way");
    /* 0.5 * (1 + cos(pi * 0.25)) */
    is_near(schedule_factor(c, 25, 0, 100), 0.85355339059327373, "a quarter");
    ok(schedule_factor(c, 99, 0, 100) > 0, "the last step still learns");
    is_near(schedule_factor(c, 100, 0, 100), 0, "after it, nothing does");
    is_near(schedule_factor(c, 1000, 0, 100), 0, "nor later");
    is_near(schedule_factor(c, 0, 10, 100), 0, "a warm-up starts at 0");
    is_near(schedule_factor(c, 5, 10, 100), 0.5, "rises");
    is_near(schedule_factor(c, 10, 10, 100), 1, "to 1");
    is_near(schedule_factor(c, 55, 10, 100), 0.5, "and falls from there");
    is_near(schedule_factor(c, 5, 10, 7), 0.5, "longer than the run");
    is_near(schedule_factor(c, 10, 10, 10), 1, "as long as the run");
    c = SCHEDULE_CONSTANT;
    is_near(schedule_factor(c, 0, 0, 100), 1, "constant");
    is_near(schedule_factor(c, 99, 0, 100), 1, "stays");
    is_near(schedule_factor(c, 5, 10, 100), 0.5, "after its warm-up");
    return tap_done();
}
