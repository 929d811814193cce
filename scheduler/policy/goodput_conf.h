/* goodput_conf.h - the parameters of the policy `goodput`, from the keys of
 * mgpu.yaml. */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_CONF_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_CONF_H

#include "jobs/conf/conf_goodput.h"
#include "scheduler/policy/goodput.h"

static inline struct policy_goodput policy_goodput_of_conf(
    const struct conf_goodput *c)
{
    return (struct policy_goodput){
        .length_weight = c->length_weight,
        .speedup_exponent = c->speedup_exponent,
        .efficiency_floor = c->efficiency_floor,
        .idle_floor = c->idle_floor,
        .hysteresis_s = c->hysteresis_s,
        .horizon_s = c->horizon_s,
        .interval_s = c->interval_s,
        .min_runtime_s = c->min_runtime_s,
        .max_resizes_per_hour = c->max_resizes_per_hour,
        .explore = c->explore,
        .aging = c->aging,
        .priority = c->priority == PRIORITY_WEIGHT ? POLICY_PRIORITY_WEIGHT
                                                   : POLICY_PRIORITY_STRICT,
    };
}

#endif
