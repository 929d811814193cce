/* pending_order.h - the order of a policy's view; see pending_order.c. */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_PENDING_ORDER_H
#define MGPU_SCHEDULER_ENGINE_PLAN_PENDING_ORDER_H

#include "scheduler/engine/engine_internal.h"

/* A job of the view, and what decides its position. */
struct eng_order {
    struct job_record *record;
    const struct waiting *waits; /* NULL: it is live */
    uint64_t id;
    double submit_s; /* on the view's clock */
    int32_t priority;
    bool has_reservation, is_back;
};
/* Jobs that are live or could start, in the policy's order.
 * own  *ret, for free() */
int eng_order(struct engine *e, double now_s, double wall_s,
              struct eng_order **ret, size_t *ret_n,
              struct error *err) MUST_CHECK;

#endif
