/* token_secret.h - what only this daemon knows, and what is derived from it.
 *
 * The file `secret` in the state directory: 32 random bytes, mode 0600,
 * written once. A worker's token and the mark in the name that an attempt
 * has outside are functions of it, so neither is stored anywhere, and a
 * daemon with another state directory can make neither.
 */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_TOKEN_SECRET_H
#define MGPU_SCHEDULER_CTLD_STARTUP_TOKEN_SECRET_H

#include "jobs/base/error.h"
#include "scheduler/engine/engine.h"

enum { SECRET_BYTES = 32 };

struct secret {
    unsigned char bytes[SECRET_BYTES];
    const char *cluster; /* borrowed */
};

/* Reads dir/secret, or creates it. Nobody else may be doing so: the caller
 * holds the state directory's lock.
 *
 * err  ERR_CONFIG it is no file of ours with mode 0600 and 32 bytes; of
 *      open(2), write(2) ... */
int secret_load(const char *dir, const char *cluster, struct secret *ret,
                struct error *err) MUST_CHECK;
void secret_clear(struct secret *s); /* zeroed is fine */

/* engine_parts.secret_of; arg is a struct secret. */
int secret_of(void *arg, enum engine_secret what, uint64_t job, int32_t attempt,
              char ret[ENGINE_SECRET_CAP], struct error *err) MUST_CHECK;

#endif
