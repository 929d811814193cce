/* digest_ssl.h - SHA-256 and HMAC-SHA256, by libcrypto. */
#ifndef MGPU_JOBS_HTTP_DIGEST_SSL_H
#define MGPU_JOBS_HTTP_DIGEST_SSL_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

enum { DIGEST_HEX_CAP = 65 }; /* 64 digits, lower case, and a NUL */

/* A text that only who knows the key can have made.
 *
 * err  ERR_NOMEM libcrypto refused
 * src  RFC 2104 with SHA-256 (RFC 4231 has the vectors) */
int digest_hmac(const void *key, size_t key_len, const char *text, size_t len,
                char ret[DIGEST_HEX_CAP], struct error *err) MUST_CHECK;

/* SHA-256 over several texts. Each is preceded by its length, 8 bytes, the
 * highest first: no two lists have the same bytes.
 *
 * err  ERR_EXTERN libcrypto refused */
struct digest_part {
    const void *data; /* may be NULL when len is 0 */
    size_t len;
};
int digest_parts(const struct digest_part *parts, size_t n,
                 char ret[DIGEST_HEX_CAP], struct error *err) MUST_CHECK;

/* Whether two digests are the same text; takes as long for a wrong first
 * digit as for a wrong last one. Anything but 64 characters is never the
 * same. */
bool digest_same(const char *want, const char *got);

#endif
