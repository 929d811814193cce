/* reservations.h - who gets his devices from those that leave, and what is kept
 * for him.
 *
 * Functions of a plan (planner.h). They do nothing unless the view says that
 * devices may be taken back (preempt.h).
 */
#ifndef MGPU_SCHEDULER_POLICY_RESERVATIONS_H
#define MGPU_SCHEDULER_POLICY_RESERVATIONS_H

#include "scheduler/policy/planner.h"

/* Of plan_begin() and plan_end(). err  ERR_NOMEM */
int owed_begin(struct plan *p, struct error *err) MUST_CHECK;
void owed_end(struct plan *p);

/* The plan has just taken `place` at p->at for a start. NULL; or the job that
 * would lose what it is owed, and nothing is noted. */
const struct plan_owed *owed_take(struct plan *p, const struct policy_job *job,
                                  struct place place);

void owed_untake(struct plan *p, struct place place);

/* As if the last owed_take(), with that place, had not been. */
void owed_untake(struct plan *p, struct place place);

/* What will be free when all have left who are to, and those have started who
 * are owed it; without any of that what is free now. out  ret [n_nodes] */
void owed_picture(const struct plan *p, struct policy_node *ret);

/* ---- for preempt.c; p->soon is there --------------------------------------
 */
bool owed_has_devices(const struct policy_job *job);

/* Gives back (sign 1), or takes (sign -1), what the job has. */
void owed_add(struct policy_node *nodes, const struct policy_job *job,
              int32_t sign);

/* It is to leave (sign 1); or, after all, not (sign -1). */
void owed_leaves(struct plan *p, const struct policy_job *job, int32_t sign);

/* After one or more of these, and another in p->owed: whether all there have a
 * place, and wherever the allocator puts those that start. False: nothing is
 * noted; take the others back, too. */
bool owed_fit(struct plan *p);

/* NULL: it is owed nothing. */
struct plan_owed *owed_of(const struct plan *p, const struct policy_job *job);

/* One before the job that waits for the same nodes, and nobody knows where its
 * devices come free; or NULL. */
struct plan_owed *owed_stuck_before(const struct plan *p,
                                    const struct policy_job *job);

/* Leaves in p->trial what is left of `from` when those who are owed something
 * have it. The first who has no place, if any. */
struct plan_owed *owed_place(const struct plan *p,
                             const struct policy_node *from);

#endif
