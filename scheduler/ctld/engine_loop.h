/* engine_loop.h - when the engine makes its steps, and their commits. */
#ifndef MGPU_SCHEDULER_CTLD_ENGINE_LOOP_H
#define MGPU_SCHEDULER_CTLD_ENGINE_LOOP_H

#include "jobs/base/error.h"

struct ctld;

/* in  on_stopped  called with c after engine_loop_stop(), when no step is under
 *                 way any more */
int engine_loop_init(struct ctld *c, void (*on_stopped)(void *ctld),
                     struct error *err) MUST_CHECK;
/* Makes the requests so far durable and answers them, then calls on_stopped().
 * The daemon is stopping. */
void engine_loop_stop(struct ctld *c);
/* The thread of the commits has ended. */
void engine_loop_clear(struct ctld *c);

#endif
