/* env_keys.h - the files with the keys to what is sealed; see
 * jobs/spec/env_seal.h.
 *
 * STATE/keys, 0700, has one file of 32 random bytes, 0600, for each submit with
 * values that sound secret, by its id. It is on the disk before the submit is,
 * and goes when the last of its jobs has ended: what is left of the values in
 * databases and launch files is nothing that anybody can read. No backup has
 * this directory.
 *
 * A daemon that dies between the two leaves a key without a job, which the next
 * one throws away. A job without its key is one that was put back from a copy:
 * its ranks refuse to begin.
 *
 * The file `digest` is the key to what is kept of a submit's text to know it
 * again by its idempotency key: of a text with such a value anybody could try
 * values until a plain hash fits.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_ENV_KEYS_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_ENV_KEYS_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/spec/env_seal.h"

struct keys {
    char dir[1024];
    unsigned char digest[SEAL_KEY_BYTES];
};

/* Makes what is missing.
 * err  ERR_CONFIG the directory or the file is not ours alone */
int keys_open(const char *state_dir, struct keys *ret,
              struct error *err) MUST_CHECK;
void keys_clear(struct keys *k); /* zeroed is fine */

/* From any thread. A new file; durable, or not there. */
int keys_create(const struct keys *k, const char id[SEAL_ID_CAP],
                unsigned char ret[SEAL_KEY_BYTES],
                struct error *err) MUST_CHECK;
/* err  ERR_NOTFOUND there is no such file (any more) */
int keys_read(const struct keys *k, const char id[SEAL_ID_CAP],
              unsigned char ret[SEAL_KEY_BYTES], struct error *err) MUST_CHECK;

/* Removes the keys, and drafts of keys, whose ids is_used() does not know. */
int keys_keep(const struct keys *k, bool (*is_used)(void *arg, const char *id),
              void *arg, struct error *err) MUST_CHECK;

#endif
