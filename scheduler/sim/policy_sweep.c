/* policy_sweep.c - --sweep KEY=VALUE,...: one policy once for each value of a
 * key. */
#include <stdio.h>
#include <string.h>

#include "scheduler/sim/args.h"

static int bad(const char *text, struct error *err)
{
    return error_set(err, ERR_USAGE,
                     "--sweep: '%.60s' is not KEY=VALUE,... of 2 to %d values, "
                     "such as hysteresis=0s,60s",
                     text, SIM_POLICIES_MAX);
}

int policy_sweep_expand(struct sim_args *a, struct error *err)
{
    const char *policy = a->policies[0];
    const char *equals = a->sweep ? strchr(a->sweep, '=') : NULL;
    size_t n = 0;

    if (!a->sweep)
        return 0;
    if (a->n_policies != 1)
        return error_set(err, ERR_USAGE, "--sweep needs one --policy, not %zu",
                         a->n_policies);
    if (!equals || equals == a->sweep)
        return bad(a->sweep, err);
    for (const char *p = equals + 1;; p++) {
        size_t len = strcspn(p, ",");
        if (n == SIM_POLICIES_MAX || len == 0 || len >= SIM_SWEEP_CAP)
            return bad(a->sweep, err);
        (void)snprintf(a->sweep_values[n], SIM_SWEEP_CAP, "%.*s", (int)len, p);
        int used =
            snprintf(a->sweep_words[n], sizeof(a->sweep_words[n]),
                     "%s%c%.*s=%.*s", policy, strchr(policy, ':') ? ',' : ':',
                     (int)(equals - a->sweep), a->sweep, (int)len, p);
        if (used < 0 || (size_t)used >= sizeof(a->sweep_words[n]))
            return bad(a->sweep, err);
        n++;
        p += len;
        if (*p == '\0')
            break;
    }
    if (n < 2)
        return bad(a->sweep, err);
    for (size_t i = 0; i < n; i++)
        a->policies[i] = a->sweep_words[i];
    a->n_policies = n;
    return 0;
}
