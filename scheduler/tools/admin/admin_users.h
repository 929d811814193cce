/* admin_users.h - mgpu-admin who: whose jobs there are. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_USERS_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_USERS_H

#include "scheduler/tools/common/client.h"

/* Each user with jobs that run or wait, who holds most GPUs first. */
int admin_users(struct client *c, bool json, struct error *err) MUST_CHECK;

#endif
