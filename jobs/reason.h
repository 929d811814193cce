/* reason.h - the token of a pending job's reason, such as WaitingForGpus. */
#ifndef MGPU_JOBS_REASON_H
#define MGPU_JOBS_REASON_H

#include <stddef.h>

enum { REASON_TOKEN_CAP = 40 };

/* The length of the token at the beginning of the text, as WaitingForGpus in
 * "WaitingForGpus: needs 2, 1 free"; 0: none. */
size_t reason_token_length(const char *text);

/* The token of a pending job's reason. A requeued job keeps the reason for the
 * end of its last attempt until the planner has examined it; that may be long,
 * with a backoff. */
void reason_token(const char *reason, char ret[REASON_TOKEN_CAP]);

#endif
