/* env_seal.h - values of `env` whose names sound secret, as a daemon keeps
 * them.
 *
 * The daemon hands them to a job's ranks, also those of a later attempt, and so
 * has to keep them. What it keeps, and writes into launch files, is
 *
 *     sealed:1:<id>:<base64>       of seal_text() under the variable's name
 *
 * and the key to it is a file of its own, <id>, for each submit
 * (scheduler/ctld/maintenance/env_keys.h). Ranks get the key with their token.
 * So the text is of no use without the file, nor the file without the text.
 */
#ifndef MGPU_JOBS_SPEC_ENV_SEAL_H
#define MGPU_JOBS_SPEC_ENV_SEAL_H

#include <stdbool.h>

#include "jobs/base/error.h"
#include "jobs/http/seal_ssl.h"
#include "jobs/spec/spec.h"

enum { SEAL_ID_CAP = 17 }; /* 16 hexadecimal digits, lower case */

bool seal_is_id(const char *text);

/* Whether a value is to be sealed: one of a variable whose name sounds secret.
 * All of those of a submit are, also what only looks like a sealed one. */
bool seal_wants(const struct spec_map *env);

/* Seals them.
 * err  ERR_LIMIT with the variable's name: the value is too long; env may be
 *      half sealed */
int seal_env(struct spec_map *env, const char id[SEAL_ID_CAP],
             const unsigned char key[SEAL_KEY_BYTES],
             struct error *err) MUST_CHECK;

/* Whether there is a sealed value in env, or in the JSON of a spec.
 * out  ret_id  NULL, or the id in the first; untouched without one */
bool seal_find(const struct spec_map *env, char ret_id[SEAL_ID_CAP]);
bool seal_find_text(const char *spec, char ret_id[SEAL_ID_CAP]);

/* Whether this one is. */
bool seal_is(const struct spec_pair *p);

/* Adds the sealed ones' values to io, opened.
 * err  ERR_INVAL one of them is not of this key; io is as it was
 * own  as of secrets_read(): secrets_clear() */
int seal_take(const struct spec_map *env,
              const unsigned char key[SEAL_KEY_BYTES], struct spec_map *io,
              struct error *err) MUST_CHECK;

/* A key in 64 hexadecimal digits, and back; false: it is none. */
enum { SEAL_HEX_CAP = 2 * SEAL_KEY_BYTES + 1 };
void seal_hex(const unsigned char key[SEAL_KEY_BYTES], char ret[SEAL_HEX_CAP]);
bool seal_unhex(const char *text, unsigned char ret[SEAL_KEY_BYTES]);

#endif
