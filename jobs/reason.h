/* reason.h - of which kind the reason is for which a job waits. */
#ifndef MGPU_JOBS_REASON_H
#define MGPU_JOBS_REASON_H

#include <stddef.h>

enum { REASON_TOKEN_CAP = 40 };

/* How many characters of the text are its token, as WaitingForGpus in
 * "WaitingForGpus: needs 2, 1 free"; 0: it begins with none. */
size_t reason_token_length(const char *text);

/* Of a job in the queue. One that is there again keeps what its last attempt
 * ended for until a plan has looked at it; that may be long, with a backoff. */
void reason_token(const char *reason, char ret[REASON_TOKEN_CAP]);

#endif
