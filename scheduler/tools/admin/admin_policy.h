/* admin_policy.h - `mgpu-admin policy`: the settings that decide which job
 * starts when.
 */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_POLICY_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_POLICY_H

#include "scheduler/tools/common/client.h"

struct admin_policy {
    double for_s; /* for `set`: lifetime of the setting; 0: until it is reset */
    double since_s; /* for `try`: jobs submitted so long ago; 0: all */
    bool json, quiet;
};

/* in   words  [n] what follows `policy`: show, set, reset, explain, try
 * err  ERR_USAGE; ERR_INVAL or ERR_CONFIG for values that mgpu.yaml may not
 *      have either */
int admin_policy(struct client *c, const struct admin_policy *a, char **words,
                 int n, struct error *err) MUST_CHECK;

#endif
