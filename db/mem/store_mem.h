/* store_mem.h - a store in memory, for the simulator and tests. */
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

#endif
