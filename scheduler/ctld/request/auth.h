/* auth.h - authenticate callers, and decide whether the daemon serves them. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_AUTH_H
#define MGPU_SCHEDULER_CTLD_REQUEST_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct http_exchange;

int auth_init(struct ctld *c, struct error *err) MUST_CHECK;
/* The thread of the logins has ended. */
void auth_clear(struct ctld *c);
/* Admits a user. False: the daemon does not serve the caller, and has replied;
 * or the caller is not known yet, and the handler is called again. */
bool ctld_admit(struct ctld *c, struct http_exchange *x);
/* The same for administrators only. */
bool ctld_admit_admin(struct ctld *c, struct http_exchange *x);
/* Admits a worker, of a route with an attempt. It must show the token of that
 * attempt, which is not over, and call from an address of the attempt. False:
 * it has replied with why. */
struct worker {
    uint64_t job;
    int32_t attempt;
    const char *token; /* borrowed from x */
};
bool ctld_admit_worker(struct ctld *c, struct http_exchange *x,
                       struct worker *ret);

#endif
