/* goodput_in_time.h - leave out the sizes that are too small for the time limit
 * of a job. */
#ifndef MGPU_SCHEDULER_POLICY_GOODPUT_IN_TIME_H
#define MGPU_SCHEDULER_POLICY_GOODPUT_IN_TIME_H

#include "scheduler/policy/goodput_plan.h"

/* Seconds that a start of the job, or a resize, is expected to take. */
static inline double gp_cost_s(const struct policy_job *job)
{
    return isnan(job->cost_s) ? POLICY_COST_S : job->cost_s;
}

/* Once the sizes of a job are listed: leaves out those on which it would not
 * end within its time limit, if it would on a larger one. */
void gp_in_time(struct gp *g, struct gp_job *io);

#endif
