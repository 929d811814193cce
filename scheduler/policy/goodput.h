/* goodput.h - what the policy `goodput` knows of a job, and its parameters.
 *
 * docs/policy.md has the formula and its reasons. The engine fills these in
 * (engine/plan/job_curves.c); the policies fifo and backfill do not look at
 * them.
 */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/throughput.h"

/* A size and its rate, as throughput.h has it. */
struct policy_rate {
    int32_t nodes, per_node;
    double per_s, hoped_per_s;
    enum rate_basis basis;
    int64_t n; /* iterations that were measured */
};

/* All sizes that the cluster has for jobs of a class: 1 to all GPUs of the
 * largest node, and whole nodes above. A job uses those within its bounds. */
struct policy_curve {
    const struct policy_rate *rates; /* borrowed; [n_rates], by GPUs */
    size_t n_rates;
    double one_per_s; /* rate of one GPU; NAN: the class has never run */
    int32_t largest;  /* GPUs of the largest measured size; 0: likewise */
};

enum policy_goal {
    POLICY_GOAL_NONE,       /* the administrator's floors apply */
    POLICY_GOAL_EFFICIENCY, /* GPUs are not to be wasted: at least 0.7 */
    POLICY_GOAL_SPEED,      /* the administrator's floors apply, and each GPU
                               counts in full: speedup_exponent 1 */
    POLICY_GOAL_FIT,        /* the smallest size that holds it, always */
};
#define POLICY_GOAL_EFFICIENCY_FLOOR 0.7

/* The part of a job in the view that only goodput looks at. All zero: a job
 * that tells nothing, of the average user. */
struct policy_job_goodput {
    const struct policy_curve *curve; /* borrowed; NULL: not elastic, it has one
                                         size */
    double left_one_s; /* what is left to do, in seconds of one GPU; 0 or NAN:
                          unknown */
    double guess_s;    /* the same, if that is not known: by its time limit, by
                          earlier jobs of its program, or by all. It says which
                          rank the job has, and must not depend on who else is
                          there. 0 or NAN: nothing tells, POLICY_UNTOLD_S */
    double min_efficiency; /* of the job; 0: none. The administrator's floor
                              applies if it is higher */
    double share;          /* fair share factor, 1/8..1; 0: 1 */
    /* So the engine keeps to max_resizes_per_hour. 0: at any time. */
    double resizable_s;     /* not to give up GPUs before */
    double growable_s;      /* not to grow before: its last resize of the hour
                               is for the GPUs that others need */
    double idle_growable_s; /* but to grow onto GPUs that are free now, not
                               before this */
    /* Not to change its size before: it has computed for as long as the start
     * of its attempt took. INFINITY: it has not begun; 0: at any time */
    double paid_s;
    /* Queued: not to start before, for it was paused, and what it gave up is
     * for others. */
    double startable_s;
    double one_s; /* what the whole job takes on one GPU, for the slowdown; 0 or
                     NAN: unknown */
    enum policy_goal goal;
    int32_t goes_on;   /* 1: an attempt that reaches its time limit is followed
                          by one that goes on with its work */
    int32_t has_types; /* 1: it takes GPUs of several types, and the curve is of
                          the one that has room now */
    double speed; /* of a job of one size: how many times as fast as one GPU it
                     is on it; 0 or NAN: unknown */
};

enum policy_priority {
    POLICY_PRIORITY_STRICT, /* jobs of higher priority choose first */
    POLICY_PRIORITY_WEIGHT, /* the factor in the weight alone */
};

/* scheduler.goodput of mgpu.yaml(5). */
struct policy_goodput {
    double length_weight;         /* 0..3 */
    double speedup_exponent;      /* 0.3..1 */
    double efficiency_floor;      /* 0..1 */
    double idle_floor;            /* 0..efficiency_floor */
    double hysteresis_s;          /* 0..3600 */
    double horizon_s;             /* 60..86400 */
    double interval_s;            /* 5..600; 0: the struct is not set, and
                                     policy_goodput_default applies */
    double min_runtime_s;         /* of an attempt, before a resize */
    int32_t max_resizes_per_hour; /* 0..20; 0: sizes are chosen at starts
                                     alone. Beyond them a job grows onto GPUs
                                     that are free, two intervals later */
    int32_t explore; /* 1..16: so many times the largest measured size */
    enum policy_priority priority;
    double aging; /* 0: off; else w x (1 + (slowdown / aging)^2) */
};
extern const struct policy_goodput policy_goodput_default;

/* What a resize of a job is assumed to cost before one was measured. */
#define POLICY_COST_S 30.0
/* And how long a job takes on one GPU, if nothing tells. */
#define POLICY_UNTOLD_S 3600.0

#endif
