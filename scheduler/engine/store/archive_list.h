/* archive_list.h - ended jobs leave memory, and come back. */
#ifndef MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_LIST_H
#define MGPU_SCHEDULER_ENGINE_STORE_ARCHIVE_LIST_H

#include "scheduler/engine/table/entry.h"

struct engine;

/* Whether eng_leave() has something to do, and when. INFINITY: never */
double eng_leave_s(const struct engine *e);
/* No batch is under way: forgets jobs that ended, or has them archived with
 * the next batch. Those that anybody needs stay. */
void eng_leave(struct engine *e);
/* own  takes `jobs`, which are about to be archived, with their lines */
void eng_leaving_free(struct store_archived *jobs, size_t n);
/* Their batch is durable. */
void eng_archived(struct engine *e, const struct store_archived *jobs,
                  size_t n);
/* What the job waits for is in memory. err of the store */
int eng_recall_depends(struct engine *e, const struct job *job,
                       struct error *err) MUST_CHECK;
/* out  ret  the archived job of this key; unchanged: there is none */
int eng_find_past_key(const struct engine *e, int64_t uid, const char *key,
                      uint64_t *ret, struct error *err) MUST_CHECK;
/* The same; 0: there is none, or the store fails. */
uint64_t eng_past_key(const struct engine *e, int64_t uid, const char *key);
/* The job of this key is in memory, if there is one. err of the store */
int eng_recall_key(struct engine *e, int64_t uid, const char *key,
                   struct error *err) MUST_CHECK;

#endif
