/* repeat_policy.h - the attempts of a past as they were: --policy repeat.
 *
 * A policy decides, so another run of the same policy may decide otherwise.
 * This one starts a job when its recorded attempt was requested, and the replay
 * has an action for each size and each stop, whoever caused it. So what is left
 * between the recorded times and its own is the error of the simulation. */
#ifndef MGPU_SCHEDULER_SIM_REPEAT_POLICY_H
#define MGPU_SCHEDULER_SIM_REPEAT_POLICY_H

#include "scheduler/engine/update.h"
#include "scheduler/policy/policy.h"
#include "scheduler/sim/replay.h"

/* The priority of a job whose next attempt is not due. */
enum { REPEAT_WAITS = -PRIORITY_MAX };

/* backfill for jobs that are due. */
extern const struct policy policy_repeat;

/* Whether a --policy is it. err  ERR_USAGE it has keys, or no past */
int repeat_policy_named(const char *word, bool has_past, bool *ret,
                        struct error *err) MUST_CHECK;
/* The actions of a run with it: each attempt, and cancels, releases,
 * limits and max_parallel of people.
 * own  replay_clear(), also on failure */
int repeat_policy_replay(const struct past *p, const struct sim_trace *t,
                         struct replay *ret, struct error *err) MUST_CHECK;

#endif
