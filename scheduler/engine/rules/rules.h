/* rules.h - dependencies and begin times: when a job may be planned at all. */
#ifndef MGPU_SCHEDULER_ENGINE_RULES_RULES_H
#define MGPU_SCHEDULER_ENGINE_RULES_RULES_H

#include "scheduler/engine/table/job_record.h"

struct engine;

/* err  ERR_INVAL a job that this one depends on does not exist, or belongs to
 *      another user */
int eng_check_depends(struct engine *e, const struct job *job,
                      struct error *err) MUST_CHECK;
/* Updates which jobs each queued job still depends on; holds those whose
 * dependency can never be satisfied. */
void eng_depends(struct engine *e);
/* The same for one job, after eng_fates_anew(). err  its hold could not be
 * staged */
int eng_depends_one(struct engine *e, struct job_record *rec,
                    struct error *err) MUST_CHECK;
/* Begins a pass: clears the memo of sweep states. */
void eng_fates_anew(struct engine *e);

/* Sets whether the begin time of a new or replayed job is still to come. */
void eng_begin_one(struct engine *e, struct job_record *rec);
/* Releases the jobs whose begin time has come, and sets when to look again. */
void eng_begins(struct engine *e);

/* ---- cluster_rules.c ----------------------------------------------------- */
/* What the cluster tells of accounts, QOSes and reservations, as
 * alloc_ops.quotas. */
size_t eng_quotas_of(const struct engine *e, const struct alloc_quota **ret);
/* The most GPUs that the cluster would grant to an attempt of the job now, and
 * the limit that says so; INT32_MAX: no limit is known.
 * in   has      GPUs of its attempt that it would give back; 0: none
 *      limit_s  time limit of the attempt */
int32_t eng_quota_most(const struct engine *e, const struct job *job,
                       int32_t has, double limit_s, char why[JOB_REASON_CAP]);
/* The classes of nodes that a reservation takes before the next attempt of the
 * job would end at the latest. */
uint64_t eng_closed_classes(const struct engine *e,
                            const struct job_record *rec);
/* out  why  the first such reservation on nodes of these classes; false: there
 *      is none */
bool eng_say_closed(const struct engine *e, const struct job_record *rec,
                    uint64_t classes, char why[JOB_REASON_CAP]);

#endif
