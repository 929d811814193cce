/* preempt.h - preemption: running jobs release their GPUs to a job of higher
 * priority.
 *
 * A pending job may get the GPUs of jobs of strictly lower priority. The
 * policies call preempt_for() when it is the job's turn and it does not fit.
 * The function preempts a set of jobs only if the job fits on what they
 * release, together with what is free and what other jobs release anyway; else
 * it preempts none. The released GPUs are reserved for the job. The job
 * then has a *reservation*: it goes before all others until it starts, and no
 * other start takes these GPUs (docs/engine.md has the rules and their
 * reasons).
 *
 * These are functions of a plan (planner.h). They do nothing unless the view
 * says that preemption is on.
 */
#ifndef MGPU_SCHEDULER_PREEMPT_H
#define MGPU_SCHEDULER_PREEMPT_H

#include "scheduler/policy/planner.h"

/* Call it if the job does not fit now, or would delay a job with a reservation,
 * and no earlier job waits for its nodes. True: the job has its decision, and
 * each victim has one. in   delayed  the job that a start would delay, if it
 * fits; or NULL at_s     start time of that job */
bool preempt_for(struct plan *p, const struct policy_job *job,
                 const struct policy_job *delayed, double at_s);

#endif
