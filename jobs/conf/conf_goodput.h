/* conf_goodput.h - the keys of mgpu.yaml below scheduler.goodput and
 * scheduler.fair_share: see mgpu.yaml(5). */
#ifndef MGPU_JOBS_CONF_CONF_GOODPUT_H
#define MGPU_JOBS_CONF_CONF_GOODPUT_H

#include <stdint.h>

#include "jobs/spec/spec.h"

enum conf_priority { PRIORITY_STRICT, PRIORITY_WEIGHT };

struct conf_goodput {
    double length_weight, speedup_exponent;
    double efficiency_floor, idle_floor;
    double hysteresis_s, horizon_s, interval_s, min_runtime_s;
    int32_t max_resizes_per_hour; /* 0: sizes are chosen at starts alone */
    double aging;                 /* 0: off */
    int32_t explore;
    int32_t priority; /* enum conf_priority */
};

struct conf_fair_share {
    double half_life_s;      /* 0: off */
    struct spec_map weights; /* of a user or an account; others have 1 */
};

#endif
