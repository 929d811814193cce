/* preempt.h - devices are taken back from jobs that run.
 *
 * A job that has to wait may have those of jobs of strictly lower priority:
 * the policies ask preempt_for() when its turn comes and it does not fit. A
 * set of jobs is told to go only if with what they leave, with what is free
 * and with what others leave anyway the job fits; else none is. What they
 * leave is kept for it: it is *owed* its devices, goes before all others
 * until it starts, and no start takes them (docs/engine.md has the rules and
 * their reasons).
 *
 * Functions of a plan (planner.h). They do nothing unless the view says that
 * devices may be taken back.
 */
#ifndef MGPU_SCHEDULER_PREEMPT_H
#define MGPU_SCHEDULER_PREEMPT_H

#include "scheduler/policy/planner.h"

/* The job does not fit now, or would delay another that is owed devices, and
 * nobody before it waits for its nodes. True: it has its wish, and whoever is
 * to go for it has one.
 * in  delayed  whom it would delay, if it fits; or NULL
 *     at_s     when that one is to start */
bool preempt_for(struct plan *p, const struct policy_job *job,
                 const struct policy_job *delayed, double at_s);

#endif
