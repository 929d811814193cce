/* malloc_trim.h - give free heap memory back to the system. */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_MALLOC_TRIM_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_MALLOC_TRIM_H

#include <stddef.h>

#include "jobs/base/error.h"

struct ctld;

/* Trims for the first time soon. The thread of the logs exists, and ends before
 * malloc_trim_clear(). */
int malloc_trim_init(struct ctld *c, struct error *err) MUST_CHECK;
void malloc_trim_clear(struct ctld *c);
/* The engine archived n more jobs, and evicts them with its next step. */
void malloc_trim_archived(struct ctld *c, size_t n);

#endif
