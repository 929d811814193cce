/* step_request.c - ask for a step of the engine.
 *
 * The step itself is engine_loop.c's. What changes something only has to say
 * that one is wanted, and so does not depend on what a step does.
 */
#include "scheduler/ctld/ctld_internal.h"

const double ctld_step_bounds_s[CTLD_STEP_BUCKETS - 1] = {
    0.0005, 0.001, 0.005, 0.01, 0.05, 0.25, 1};

void ctld_want_step(struct ctld *c)
{
    if (!c->stopping)
        loop_timer_soon(c->step_soon);
}
