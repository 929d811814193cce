/* archive_load.h - read archived jobs into memory, on the reader's thread. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_ARCHIVE_LOAD_H
#define MGPU_SCHEDULER_CTLD_REQUEST_ARCHIVE_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct http_exchange;

/* Called on the loop when the jobs are in memory.
 * in  why  NULL, or why one of them could not be read */
typedef void archive_loaded_f(void *arg, const struct error *why);
/* Reads the job, with all tasks of its sweep. Returns 1: fn is called later; 0:
 * the job is in memory or does not exist, fn is not called.
 * err  of the store, ERR_BUSY, ERR_NOMEM */
int archive_load(struct ctld *c, uint64_t id, archive_loaded_f *fn, void *arg,
                 struct error *err) MUST_CHECK;
/* The same for several archived jobs at once.
 * in   ids  ascending
 * err  ERR_INVAL their sweeps have too many tasks */
int archive_load_all(struct ctld *c, const uint64_t *ids, size_t n,
                     archive_loaded_f *fn, void *arg,
                     struct error *err) MUST_CHECK;
/* The same for a handler. False: the handler is called again when the job is in
 * memory, or it has replied with why not. */
bool archive_load_for(struct ctld *c, struct http_exchange *x, uint64_t id);

#endif
