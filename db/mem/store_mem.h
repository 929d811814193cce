/* store_mem.h - events in memory, for the simulator and tests. It has no
 * metrics and no views. */
#ifndef MGPU_DB_MEM_STORE_MEM_H
#define MGPU_DB_MEM_STORE_MEM_H

#include "db/event_store.h"

/* Contents live as long as the process; tests restart a daemon by reopening the
 * same world. */
struct store_mem_world;
int store_mem_world_create(struct store_mem_world **ret,
                           struct error *err) MUST_CHECK;
void store_mem_world_destroy(struct store_mem_world *w);
int store_mem_create(struct store_mem_world *w, struct store **ret,
                     struct error *err) MUST_CHECK;

/* The rows of a job and of an attempt, for tests; NULL: there is none. Borrowed
 * until the next append(). */
const struct store_job *store_mem_job(const struct store_mem_world *w,
                                      uint64_t job);
const struct store_attempt *store_mem_attempt(const struct store_mem_world *w,
                                              uint64_t job, int32_t attempt);

#endif
