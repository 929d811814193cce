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
 * Functions of a plan (plan.h). They do nothing unless the view says that
 * devices may be taken back.
 */
#ifndef MGPU_SCHEDULER_PREEMPT_H
#define MGPU_SCHEDULER_PREEMPT_H

#include "scheduler/policy/plan.h"

/* Of plan_begin() and plan_end(). err  ERR_NOMEM */
int preempt_begin(struct plan *p, struct error *err) MUST_CHECK;
void preempt_end(struct plan *p);

/* The plan has just taken `place` at p->at for a start. NULL; or the job that
 * would lose what it is owed, and nothing is noted. */
const struct plan_owed *preempt_take(struct plan *p,
                                     const struct policy_job *job,
                                     struct place place);

/* The job does not fit now, and nobody before it waits for its nodes. True:
 * it has its wish, and whoever is to go for it has one. */
bool preempt_for(struct plan *p, const struct policy_job *job);

/* What will be free when all have left who are to, and those have started who
 * are owed it; without any of that what is free now. out  ret [n_nodes] */
void preempt_picture(const struct plan *p, struct policy_node *ret);

#endif
