/* attempt_progress.h - how far an attempt came, from its rows. */
#ifndef MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_PROGRESS_H
#define MGPU_SCHEDULER_CTLD_INGEST_ATTEMPT_PROGRESS_H

#include <stdint.h>

#include "db/event_store.h"
#include "jobs/base/error.h"
#include "scheduler/engine/engine.h"

struct attempt_progress {
    struct engine_beat last; /* zeroes and NAN: no row says so */
    int32_t epochs_done;
};
/* From any thread. */
int attempt_progress_read(struct store *s, uint64_t job, int32_t attempt,
                          struct attempt_progress *ret,
                          struct error *err) MUST_CHECK;
/* Passes it to the engine, for the attempt of the job that is about to end. */
void attempt_progress_use(struct engine *e, const struct job *job,
                          const struct attempt_progress *p);

#endif
