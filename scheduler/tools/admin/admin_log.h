/* admin_log.h - `mgpu-admin log`: what administrators did, one line each. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_LOG_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_LOG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* "uid 1002 (anna)"; without the name if this machine does not know it. */
char *admin_who(int64_t uid, char *out, size_t cap);

/* Prints one entry of /v1/admin/log. */
void admin_print_action(const json_t *action);

#endif
