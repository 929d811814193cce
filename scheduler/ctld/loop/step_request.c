/* step_request.c - see step_request.h. */
#include "scheduler/ctld/loop/step_request.h"

#include <stdlib.h>

#include "scheduler/ctld/ctld_internal.h"

struct step_request {
    struct loop_source *soon;
    bool has_failed;
};

const double ctld_step_bounds_s[CTLD_STEP_BUCKETS - 1] = {
    0.0005, 0.001, 0.005, 0.01, 0.05, 0.25, 1};

void ctld_step_want(struct ctld *c)
{
    if (!c->stopping)
        loop_timer_soon(c->step_request->soon);
}

bool step_request_has_failed(const struct ctld *c)
{
    return c->step_request->has_failed;
}

void step_request_set_failed(struct ctld *c, bool has_failed)
{
    c->step_request->has_failed = has_failed;
}

int step_request_init(struct ctld *c, loop_f step, struct error *err)
{
    struct step_request *r = c->step_request = calloc(1, sizeof(*r));
    if (!r)
        return error_set(err, ERR_NOMEM, "step");
    if (loop_timer_create(c->loop, step, c, &r->soon, err) < 0)
        return -1;
    loop_source_name(r->soon, "step");
    return 0;
}

void step_request_clear(struct ctld *c)
{
    if (!c->step_request)
        return;
    loop_source_destroy(c->step_request->soon);
    free(c->step_request);
    c->step_request = NULL;
}
