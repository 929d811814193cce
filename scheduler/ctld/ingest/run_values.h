/* run_values.h - the values that programs of runs send (engine/run.h). */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_RUN_VALUES_H
#define MGPU_SCHEDULER_CTLD_INGEST_RUN_VALUES_H

#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct http_exchange;

/* Called on the loop when a batch changed what is known of the job. */
typedef void run_values_told(struct ctld *c, uint64_t job);

/* Takes the body of x as a batch of the run, and replies when it is stored.
 *
 * in   offset  the bytes that were sent before it
 * err  as engine_run_check() for the caller; ERR_NOMEM, ERR_BUSY; it has not
 *      replied */
int run_values_take(struct ctld *c, struct http_exchange *x, uint64_t job,
                    int64_t offset, run_values_told *told,
                    struct error *err) MUST_CHECK;

/* After a start: how far each run that goes on has come, from its rows. What
 * cannot be read is logged. */
void run_values_resume(struct ctld *c);

#endif
