/* reservations.h - which pending jobs get the GPUs of preempted jobs, and
 * where.
 *
 * These are functions of a plan (planner.h). They do nothing unless the view
 * says that preemption is on (preempt.h).
 */
#ifndef MGPU_SCHEDULER_POLICY_RESERVATIONS_H
#define MGPU_SCHEDULER_POLICY_RESERVATIONS_H

#include "scheduler/policy/planner.h"

/* Parts of plan_begin() and plan_end(). err ERR_NOMEM */
int reservations_begin(struct plan *p, struct error *err) MUST_CHECK;
void reservations_end(struct plan *p);

/* The plan has just taken `place` at p->at for a start. Returns NULL, or the
 * job whose reservation the start would take, in which case nothing is
 * recorded. */
const struct plan_reservation *reservations_take(struct plan *p,
                                                 const struct policy_job *job,
                                                 struct place place);

void reservations_untake(struct plan *p, struct place place);

/* Undoes the last reservations_take(), which had this place. */
void reservations_untake(struct plan *p, struct place place);

/* The GPUs that will be free once all victims have left and all jobs with a
 * reservation have started; without reservations, what is free now. out ret
 * [n_nodes] */
void reservations_picture(const struct plan *p, struct policy_node *ret);

/* ---- for preempt.c; p->soon is there --------------------------------------
 */
bool reservations_has_devices(const struct policy_job *job);

/* Releases (sign 1) or takes (sign -1) the GPUs of the job. */
void reservations_add(struct policy_node *nodes, const struct policy_job *job,
                      int32_t sign);

/* Counts the job as a victim (sign 1), or no longer (sign -1). */
void reservations_leaves(struct plan *p, const struct policy_job *job,
                         int32_t sign);

/* After one or more of these calls and a new entry in p->reservations: whether
 * all reservations have a place wherever the allocator puts the starts. False:
 * nothing is recorded; undo the other calls, too. */
bool reservations_fit(struct plan *p);

/* NULL: the job has no reservation. */
struct plan_reservation *reservations_find(const struct plan *p,
                                           const struct policy_job *job);

/* A stuck reservation before the job, for the same nodes, whose GPUs become
 * free at unknown places; or NULL. */
struct plan_reservation *reservations_stuck_before(
    const struct plan *p, const struct policy_job *job);

/* Leaves in p->trial what remains of `from` after all reservations are placed.
 * Returns the first that has no place, or NULL. */
struct plan_reservation *reservations_place(const struct plan *p,
                                            const struct policy_node *from);

#endif
