/* attempt_retry.c - see attempt_retry.h. */
#include "scheduler/engine/rules/attempt_retry.h"

#include <stdio.h>

bool attempt_retry_is_due(const struct job *job, enum spec_retry after,
                          const struct rule_end *end,
                          enum rule_action *ret_action)
{
    if (job->retries >= job->retry_max)
        return false;
    *ret_action = rules_say(job->rules, end);
    return *ret_action == RULE_NONE ? (job->retry_on & after) != 0
                                    : *ret_action != RULE_FAIL;
}

void attempt_retry_limit_reason(double limit_s, char *ret, size_t cap)
{
    (void)snprintf(ret, cap, "time limit of %.0f s reached", limit_s);
}

bool attempt_retry_goes_on(const struct job *job, double limit_s)
{
    char why[80];
    const struct rule_end end = {.exit_code = -1, .reason = why};
    enum rule_action action;

    if (!job->saves || job->retries >= job->retry_max)
        return false;
    if (!job->rules)
        return (job->retry_on & RETRY_TIME_LIMIT) != 0;
    attempt_retry_limit_reason(limit_s, why, sizeof(why));
    return attempt_retry_is_due(job, RETRY_TIME_LIMIT, &end, &action);
}
