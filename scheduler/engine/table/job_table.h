/* job_table.h - the jobs in memory, by id and by key, and those that ended. */
#ifndef MGPU_SCHEDULER_ENGINE_TABLE_JOB_TABLE_H
#define MGPU_SCHEDULER_ENGINE_TABLE_JOB_TABLE_H

#include "scheduler/engine/table/entry.h"

struct engine;

/* Ids in a row. NULL instead of a page that has no job. */
enum { PAGE_IDS = 1024 };
struct page {
    struct entry *jobs[PAGE_IDS];
    /* Of many jobs those that are wanted are found without looking at each of
     * them. INFINITY, or when it ended. */
    double ended_s[PAGE_IDS];
    size_t n;
};

struct entry *eng_find(const struct engine *e, uint64_t id); /* or NULL */
struct entry *eng_find_key(const struct engine *e, int64_t uid,
                           const char *key);
/* The list of the key; there are buckets. */
struct entry **eng_bucket(const struct engine *e, int64_t uid, const char *key);
/* The first with an id > `after` that has ended at since_s or later, or not at
 * all. */
struct entry *eng_next(const struct engine *e, uint64_t after, double since_s);
/* It is found by its id, which is nobody else's.
 * err  ERR_NOMEM; it is still the caller's */
int eng_put(struct engine *e, struct entry *en, struct error *err) MUST_CHECK;
/* A new one in every index but by_key. own  it is the engine's, if that is
 * done */
int eng_add(struct engine *e, struct entry *en, struct error *err) MUST_CHECK;
int eng_add_new(struct engine *e, uint64_t id, struct entry **ret,
                struct error *err) MUST_CHECK;
int eng_add_key(struct engine *e, struct entry *en,
                struct error *err) MUST_CHECK;
void eng_remove(struct engine *e, struct entry *en);
/* One that is not active, nor in the list of ended_list.c. */
void eng_forget(struct engine *e, struct entry *en);
/* It has ended, at job.end_s. */
void eng_set_ended(struct engine *e, const struct entry *en);
/* Those that have ended, durably, are not active any more. */
void eng_compact(struct engine *e);
void eng_compact_all(struct engine *e); /* of a replay: none is filed */
void eng_index_clear(struct engine *e);

/* It is durable that the job has ended. */
void eng_list_ended(struct engine *e, struct entry *en);
void eng_append_ended(struct engine *e, struct entry *en); /* this one alone */

/* Why a job waits is no event: it is told at once, and stored with one of
 * the next batches. True when it is another one. */
bool eng_set_reason(struct engine *e, struct entry *en, const char *reason);

#endif
