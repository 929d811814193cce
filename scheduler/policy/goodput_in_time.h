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
/* So many GPUs are lacking for a job that waits. Live jobs that began after it
 * was submitted give up those that they need to end in time, the last ones in
 * the view first; if all together have too few, none does. Returns how many.
 * in gain  of a GPU for the job: jobs for which one is worth as much, or of
 *          higher priority where that is an order, keep theirs. INFINITY: the
 *          job has them in any case */
int32_t gp_in_time_give(struct gp *g, const struct gp_job *to, int32_t lacks,
                        double gain);

#endif
