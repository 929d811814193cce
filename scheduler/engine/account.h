/* account.h - the account that a job is charged to.
 *
 * That is the account that its specification names, else the one of the
 * configuration, else the default account of its user, if the cluster's
 * scheduler tells its associations. The engine never sends a default along: the
 * cluster's scheduler applies it. The submit event and the intent of each
 * attempt record it, so that a replay needs no cluster. */
#ifndef MGPU_SCHEDULER_ENGINE_ACCOUNT_H
#define MGPU_SCHEDULER_ENGINE_ACCOUNT_H

#include <stdint.h>

struct engine;
struct job;

/* The account of the job's attempt, or of its next one. NULL: none is known.
 * Borrowed: valid until the next step, or the next change of the job. */
const char *engine_account(const struct engine *e, const struct job *job);
/* The default account of a user, where the configuration has none for all;
 * NULL: not told. Borrowed until the next step. */
const char *eng_default_account(const struct engine *e, int64_t uid);

#endif
