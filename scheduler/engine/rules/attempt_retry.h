/* attempt_retry.h - whether an attempt that ends so is followed by another. */
#ifndef MGPU_SCHEDULER_ENGINE_RULES_ATTEMPT_RETRY_H
#define MGPU_SCHEDULER_ENGINE_RULES_ATTEMPT_RETRY_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/spec/retry_rule.h"
#include "jobs/spec/spec.h"
#include "scheduler/engine/job.h"

/* By the job's rules, and else by its retry.on, as long as it has retries left.
 * in   after       kind of the end
 * out  ret_action  what its rules say; RULE_NONE: nothing. Not set without
 *                  retries */
bool attempt_retry_is_due(const struct job *job, enum spec_retry after,
                          const struct rule_end *end,
                          enum rule_action *ret_action);

/* The seconds between such an end and the next attempt: retry.backoff is
 * doubled with each retry, up to its maximum, and the wait is between half of
 * that and all of it. */
double attempt_retry_wait_s(const struct job *job);

/* The reason of an end by the attempt's own limit. */
void attempt_retry_limit_reason(double limit_s, char *ret, size_t cap);

/* Whether an attempt that reaches this time limit is followed by one that goes
 * on with its work: its end is retried, and it saves what it has. */
bool attempt_retry_goes_on(const struct job *job, double limit_s);

#endif
