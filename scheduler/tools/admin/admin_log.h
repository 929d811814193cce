/* admin_log.h - `mgpu-admin log`: who did what to the daemon, a line each. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_LOG_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_LOG_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* "uid 1002 (anna)"; without the name where this machine knows none. */
char *admin_who(int64_t uid, char *out, size_t cap);

/* One of /v1/admin/log. */
void admin_print_deed(const json_t *deed);

#endif
