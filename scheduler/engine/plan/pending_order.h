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
    int32_t priority, rank;
    bool has_reservation, is_back;
};
/* Jobs that are live or could start, in the policy's order, one by one. */
struct eng_ordering {
    const struct engine *e;
    double now_s, wall_s;
    struct eng_order *few; /* owned; [n_few] */
    size_t n_few;          /* at most e->lists.moving.n of them are live */
    size_t next_few, next; /* of the queue */
};
int eng_order_begin(struct engine *e, double now_s, double wall_s,
                    struct eng_ordering *ret, struct error *err) MUST_CHECK;
/* False: there is no other one. */
bool eng_order_next(struct eng_ordering *o, struct eng_order *ret);
void eng_order_end(struct eng_ordering *o);

#endif
