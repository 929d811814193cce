/* admin_users.h - mgpu-admin who: the users with jobs. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_USERS_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_USERS_H

#include "scheduler/tools/common/client.h"

/* Prints each user with live or pending jobs, most GPUs first. */
int admin_users(struct client *c, bool json, struct error *err) MUST_CHECK;

#endif
