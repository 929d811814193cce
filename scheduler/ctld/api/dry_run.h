/* dry_run.h - reply to a submit that only asks what would happen. */
#ifndef MGPU_SCHEDULER_CTLD_API_DRY_RUN_H
#define MGPU_SCHEDULER_CTLD_API_DRY_RUN_H

#include <stdbool.h>

struct ctld;
struct engine_submit;
struct engine_sweep;
struct http_exchange;

/* in  is_seed_open  the seed was drawn, and a real submit draws another one
 *     sweep         NULL: one job */
void dry_run_reply(struct ctld *c, struct http_exchange *x,
                   const struct engine_submit *req,
                   const struct engine_sweep *sweep, bool is_seed_open);

#endif
