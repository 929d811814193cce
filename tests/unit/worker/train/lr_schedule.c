/* lr_schedule.c - the learning rate's factor, against torchtune's formula. */
#include "worker/train/lr_schedule.h"

#include <math.h>

#include "tests/tap.h"

static void is_near(double got, double want, const char *what)
{
    ok(fabs(got - want) < 1e-15, "%s: %.17g", what, got);
}

static double factor(enum spec_schedule name, int64_t step, int32_t warmup,
                     int64_t total)
{
    struct job_spec s = {.train.lr_scheduler = {.name = name,
                                                .num_warmup_steps = warmup,
                                                .step_size = 2,
                                                .gamma = 0.5}};
    return schedule_factor(&s, step, 10, total);
}

int main(void)
{
    enum spec_schedule c = SCHEDULE_COSINE;
    is_near(factor(c, 0, 0, 100), 1, "no warm-up: starts at 1");
    is_near(factor(c, 50, 0, 100), 0.5, "half-way");
    /* 0.5 * (1 + cos(pi * 0.25)) */
    is_near(factor(c, 25, 0, 100), 0.85355339059327373, "a quarter");
    ok(factor(c, 99, 0, 100) > 0, "the last step still learns");
    is_near(factor(c, 100, 0, 100), 0, "after it, nothing does");
    is_near(factor(c, 1000, 0, 100), 0, "nor later");
    is_near(factor(c, 0, 10, 100), 0, "a warm-up starts at 0");
    is_near(factor(c, 5, 10, 100), 0.5, "rises");
    is_near(factor(c, 10, 10, 100), 1, "to 1");
    is_near(factor(c, 55, 10, 100), 0.5, "and falls from there");
    is_near(factor(c, 5, 10, 7), 0.5, "longer than the run");
    is_near(factor(c, 10, 10, 10), 1, "as long as the run");
    c = SCHEDULE_CONSTANT;
    is_near(factor(c, 0, 0, 100), 1, "constant");
    is_near(factor(c, 99, 0, 100), 1, "stays");
    is_near(factor(c, 5, 10, 100), 0.5, "after its warm-up");
    c = SCHEDULE_STEP;
    is_near(factor(c, 19, 0, 100), 1, "two epochs of ten");
    is_near(factor(c, 20, 0, 100), 0.5, "then a step");
    is_near(factor(c, 20, 25, 100), 0.8, "not while it warms up");
    is_near(factor(c, 45, 25, 100), 0.25, "but counted");
    return tap_done();
}
