/* take_back.h - attempts that are pending in the allocator's queue, and sizes
 * that it does not grant; see take_back.c and resize_patience.c.
 */
#ifndef MGPU_SCHEDULER_ENGINE_PLAN_TAKE_BACK_H
#define MGPU_SCHEDULER_ENGINE_PLAN_TAKE_BACK_H

#include "scheduler/engine/engine_internal.h"

/* Whether the attempt waits for the allocator, and no request of it is without
 * an answer: such an attempt may have been granted. */
bool eng_is_pending(const struct job_record *rec);
/* Takes the attempt back. err ERR_NOMEM */
int eng_take_back(struct engine *e, struct job_record *rec, const char *why,
                  struct error *err) MUST_CHECK;
/* Takes back the pending attempts of users and accounts without GPU-hours. */
int eng_take_spent_back(struct engine *e, struct error *err) MUST_CHECK;

/* ---- resize_patience.c --------------------------------------------------- */
/* Gives up the sizes that the allocator does not grant.
 * out  ret_waits  a job that is to have its old size back cannot be planned
 *      before the allocator knows that its last attempt is over; no other job
 *      may start before it
 * err  ERR_NOMEM */
int eng_give_up_sizes(struct engine *e, bool *ret_waits,
                      struct error *err) MUST_CHECK;
/* Whether the pending attempt has a size that may be given up because it was
 * refused. in is_of_size for the number of its GPUs */
bool eng_may_give_up(const struct job_record *rec, bool is_of_size);
/* Stages the end of such an attempt. err ERR_NOMEM */
int eng_refused_size(struct engine *e, struct job_record *rec, const char *why,
                     struct error *err) MUST_CHECK;
/* When it would give up the next one; INFINITY: never. */
double eng_patience_next(const struct engine *e);

/* ---- resizing.c, plan.c ---------------------------------------------------
 */
/* Takes the sizes that were not granted from the bounds of a job in the view,
 * if it has others. in wall_s now, since 1970 */
void eng_leave_out_barred(const struct job_resize *r, double wall_s,
                          struct policy_job *io);
/* The same for sizes above what a quota of the cluster leaves. */
void eng_leave_out_quota(const struct engine *e, const struct job_record *rec,
                         struct policy_job *io);
/* The reason of a WAIT; a reservation to come may be the cause. */
const char *eng_wait_reason(const struct engine *e,
                            const struct job_record *rec,
                            const struct policy_decision *w,
                            char room[JOB_REASON_CAP]);

#endif
