/* attempt_retry.c - see attempt_retry.h. */
#include "scheduler/engine/rules/attempt_retry.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* 0..1, and always the same for one attempt: jobs that ended together do not
 * restart together, and a replay gets the same value. */
static double chance(const struct job *job)
{
    uint64_t x = job->id * 0x9e3779b97f4a7c15u + (uint64_t)job->attempt;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (double)((x ^ (x >> 31)) >> 11) / 9007199254740992.0; /* 2^53 */
}

double attempt_retry_wait_s(const struct job *job)
{
    double longest_s =
        fmin(job->backoff_s * exp2(job->retries), job->backoff_max_s);
    return longest_s * (0.5 + 0.5 * chance(job));
}

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
