/* rate_limit.h - limit the requests of each user: limits.rpc_rate. */
#ifndef MGPU_SCHEDULER_CTLD_REQUEST_RATE_LIMIT_H
#define MGPU_SCHEDULER_CTLD_REQUEST_RATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;

/* So many users are told apart. */
enum { RATE_LIMIT_BUCKETS = 1024 };

int rate_limit_init(struct ctld *c, struct error *err) MUST_CHECK;
void rate_limit_clear(struct ctld *c);
/* Takes one token of the user. False: there is none, and *ret_after_s is the
 * time until there is one. */
bool rate_limit_take(struct ctld *c, int64_t uid, double *ret_after_s);

#endif
