/* policy.c - the table of policies. To add a policy, add one line here. */
#include "scheduler/policy/policy.h"

#include <string.h>

static const struct policy *const all[] = {&policy_backfill, &policy_fifo,
                                           &policy_goodput};

const struct policy *policy_at(size_t i)
{
    return i < sizeof(all) / sizeof(all[0]) ? all[i] : NULL;
}

const struct policy *policy_find(const char *name)
{
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    return NULL;
}
