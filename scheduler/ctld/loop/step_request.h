/* step_request.h - ask for a step of the engine.
 *
 * engine_loop.c makes the steps. A file that changes something only requests
 * one, and so does not depend on what a step does.
 */
#ifndef MGPU_SCHEDULER_CTLD_LOOP_STEP_REQUEST_H
#define MGPU_SCHEDULER_CTLD_LOOP_STEP_REQUEST_H

#include "jobs/base/error.h"
#include "scheduler/ctld/loop/event_loop.h"

struct ctld;

/* in  step  makes the step; the loop calls it with c */
int step_request_init(struct ctld *c, loop_f step,
                      struct error *err) MUST_CHECK;
void step_request_clear(struct ctld *c);
/* Requests a step in this turn of the loop. Many requests are one step; a
 * daemon that is stopping ignores them. */
void ctld_step_want(struct ctld *c);

/* Whether the last step failed: the store does not take events. */
bool step_request_has_failed(const struct ctld *c);
void step_request_set_failed(struct ctld *c, bool has_failed);

#endif
