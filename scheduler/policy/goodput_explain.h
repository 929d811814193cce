/* goodput_explain.h - the table from which goodput chooses: each size of each
 * job, its value, and which one it takes. */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_EXPLAIN_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_EXPLAIN_H

#include "scheduler/policy/policy.h"

struct goodput_row {
    uint64_t job;
    int32_t nodes, per_node;
    struct policy_rate rate; /* per_s NAN: unknown */
    double efficiency; /* of the speed-up over the job's smallest size; NAN */
    double value;
    double gain; /* further value for each GPU more than the size before; of the
                    first size, for each of its GPUs */
    bool is_now, is_chosen;
    bool is_next; /* the best size above the chosen one */
    bool is_late; /* the job would not end within its time limit, as it would
                     on a larger size: only chosen if it is the present one.
                     Any other has no value and no gain: NAN */
    /* It would be chosen, but the job has no resize of the hour left. The job
     * may grow in its turn, and onto idle GPUs, from then on; seconds since
     * 1970 */
    bool is_refused;
    double turn_s, idle_turn_s;
};

/* Calls each() for each size, job after job in the order of the view, sizes by
 * GPUs. Jobs that keep what they have because they cannot change it are left
 * out, unless only their resizes of the hour keep them from growing.
 * out  ret_price  further value that one GPU would have for the job that would
 *      use it best; NAN: for none
 * err  as the policy's plan() */
int goodput_explain(const struct policy_view *view,
                    void (*each)(void *arg, const struct goodput_row *row),
                    void *arg, double *ret_price, struct error *err) MUST_CHECK;

#endif
