/* job_curves.h - what the policy goodput is told about each job. */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_JOB_CURVES_H
#define MGPU_SCHEDULER_ENGINE_PLAN_JOB_CURVES_H

#include "scheduler/engine/plan/plan.h"

/* When the policy is to choose the sizes anew; INFINITY: it does not. */
double eng_curves_next(const struct engine *e);
/* Whether goodput chooses the type of GPUs of a job, if its class has run. */
bool eng_curves_prefer_type(const struct engine *e,
                            const struct job_record *rec);
/* Sets io->goodput, and io->sets of a job that prefers a type, after all else
 * of *io. */
void eng_curves_view(struct engine *e, struct eng_view *t,
                     const struct job_record *rec, struct policy_job *io);

#endif
