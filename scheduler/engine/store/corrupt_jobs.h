/* corrupt_jobs.h - jobs whose events cannot be read. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_CORRUPT_JOBS_H
#define MGPU_SCHEDULER_ENGINE_STORE_CORRUPT_JOBS_H

#include "scheduler/engine/table/job_record.h"

struct engine;

/* Handles an event that could not be replayed, or an event of a job that was
 * set apart.
 * in   why  what is wrong with it
 * err  ERR_NOMEM */
int eng_damaged(struct engine *e, const struct store_event *ev,
                const struct error *why, struct error *err) MUST_CHECK;
/* After the replay: marks an attempt that may still run to be ended. */
void eng_resume_damaged(struct job_record *rec);
/* err  ERR_STATE the job is set apart, and can only be cancelled */
int eng_check_whole(const struct job_record *rec, struct error *err) MUST_CHECK;
/* Ids are consecutive, except for steps after a restore. An id far beyond is
 * damaged itself, and would cost as much memory. */
enum { ENG_ID_STEP_MAX = 1 << 22 };

#endif
