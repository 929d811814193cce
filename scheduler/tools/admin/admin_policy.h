/* admin_policy.h - `mgpu-admin policy`: what decides which job gets what. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_POLICY_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_POLICY_H

#include "scheduler/tools/common/client.h"

struct admin_policy {
    double for_s; /* of set: only for so long; 0: until it is reset */
    bool json, quiet;
};

/* in   words  [n] what follows `policy`: show, set, reset, explain
 * err  ERR_USAGE; ERR_INVAL or ERR_CONFIG what mgpu.yaml would be refused for
 */
int admin_policy(struct client *c, const struct admin_policy *a, char **words,
                 int n, struct error *err) MUST_CHECK;

#endif
