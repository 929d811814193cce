/* job_table.h - the table of jobs in memory, and the list of ended jobs. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_JOB_TABLE_H
#define MGPU_SCHEDULER_ENGINE_TABLE_JOB_TABLE_H

#include "scheduler/engine/table/job_record.h"

struct engine;

/* Consecutive ids per page. A page without jobs is NULL. */
enum { PAGE_IDS = 1024 };
struct page {
    struct job_record *jobs[PAGE_IDS];
    /* When each job ended, or INFINITY, to find the active ones without reading
     * each record. */
    double ended_s[PAGE_IDS];
    size_t n;
};

struct job_record *eng_find(const struct engine *e, uint64_t id); /* or NULL */
struct job_record *eng_find_key(const struct engine *e, int64_t uid,
                                const char *key);
/* The hash bucket of the key; the table exists. */
struct job_record **eng_bucket(const struct engine *e, int64_t uid,
                               const char *key);
/* The first with an id > `after` that ended at since_s or later, or has not
 * ended. */
struct job_record *eng_next(const struct engine *e, uint64_t after,
                            double since_s);
/* Enters the job under its id, which must be free.
 * err  ERR_NOMEM; the record is still the caller's */
int eng_put(struct engine *e, struct job_record *rec,
            struct error *err) MUST_CHECK;
/* Enters a new job into all indexes but by_key. own the engine takes rec, on
 * success */
int eng_add(struct engine *e, struct job_record *rec,
            struct error *err) MUST_CHECK;
int eng_add_new(struct engine *e, uint64_t id, struct job_record **ret,
                struct error *err) MUST_CHECK;
int eng_add_key(struct engine *e, struct job_record *rec,
                struct error *err) MUST_CHECK;
void eng_remove(struct engine *e, struct job_record *rec);
/* Removes a job that is neither active nor in the list of ended_list.c. */
void eng_forget(struct engine *e, struct job_record *rec);
/* Notes that the job ended at job.end_s. */
void eng_set_ended(struct engine *e, const struct job_record *rec);
/* Removes the jobs whose end is durable from the active ones. */
void eng_compact(struct engine *e);
void eng_compact_all(struct engine *e); /* after a replay: no job is in a
                                           list */
void eng_index_clear(struct engine *e);

/* The end of the job is durable. */
void eng_list_ended(struct engine *e, struct job_record *rec);
void eng_ended_append(struct engine *e,
                      struct job_record *rec); /* only this one */

/* Sets the reason of a pending job. That is no event: readers see it at once,
 * and one of the next batches stores it. True if it has changed. */
bool eng_set_reason(struct engine *e, struct job_record *rec,
                    const char *reason);

#endif
