/* stragglers.h - find the slowest or silent rank of an attempt. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_STRAGGLERS_H
#define MGPU_SCHEDULER_CTLD_INGEST_STRAGGLERS_H

#include <stddef.h>

struct job;

/* engine_parts.lags, with struct ctld as arg. Writes "; rank 2 lags: at
 * iteration 117, others at 118", or "" without a straggler. */
void stragglers_describe(void *arg, const struct job *job, char *ret,
                         size_t cap);

#endif
