/* admin_actions.h - whether an administrator has paused the daemon. */
#ifndef MGPU_SCHEDULER_CTLD_API_ADMIN_ACTIONS_H
#define MGPU_SCHEDULER_CTLD_API_ADMIN_ACTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "jobs/base/error.h"

struct ctld;

/* Opens admin.log, and repeats the actions in it. The engine exists, and so do
 * the policy settings and the drained nodes. */
int admin_actions_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Closes admin.log. */
void admin_actions_clear(struct ctld *c);
bool admin_actions_is_paused(const struct ctld *c);
/* "paused" of mgpu.status/1; null: it is not paused */
json_t *admin_actions_pause_json(const struct ctld *c);

#endif
