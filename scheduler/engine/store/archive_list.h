/* archive_list.h - eviction of ended jobs from memory, and their reload. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_LIST_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_LIST_H

#include "scheduler/engine/table/job_record.h"

struct engine;

/* When eng_leave() has work, now included. INFINITY: never */
double eng_leave_s(const struct engine *e);
/* Call it while no batch is in progress: evicts archived jobs, or selects jobs
 * to archive with the next batch. Jobs that are in use stay. */
void eng_leave(struct engine *e);
/* own  frees `jobs`, which were to be archived, with their summaries */
void eng_leaving_free(struct store_archived *jobs, size_t n);
/* The batch with these jobs is durable. */
void eng_archived(struct engine *e, const struct store_archived *jobs,
                  size_t n);
/* Reloads the dependencies of the job. err of the store */
int eng_recall_depends(struct engine *e, const struct job *job,
                       struct error *err) MUST_CHECK;
/* out  ret  the archived job of this key; unchanged: there is none */
int eng_find_past_key(const struct engine *e, int64_t uid, const char *key,
                      uint64_t *ret, struct error *err) MUST_CHECK;
/* The same; 0: there is none, or the store fails. */
uint64_t eng_past_key(const struct engine *e, int64_t uid, const char *key);
/* Reloads the job of this key, if there is one. err of the store */
int eng_recall_key(struct engine *e, int64_t uid, const char *key,
                   struct error *err) MUST_CHECK;

#endif
