/* job_curves.h - what the policy goodput is told about each job. */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_JOB_CURVES_H
#define MGPU_SCHEDULER_ENGINE_PLAN_JOB_CURVES_H

#include "scheduler/engine/plan/plan.h"

/* When the policy is to choose the sizes anew; INFINITY: it does not. */
double eng_goodput_next(const struct engine *e);
/* After the nodes of the view; before eng_view_goodput(). */
void eng_view_free_gpus(struct eng_view *t);
/* Sets io->goodput, after all else of *io. A queued job with a range that may
 * have GPUs of several types is left those of one. */
void eng_view_goodput(struct engine *e, struct eng_view *t,
                      const struct entry *en, struct policy_job *io);

#endif
