/* seal_ssl.h - a text that only who has the key can read or have made: AES-256
 * in GCM, by libcrypto, in base64. */
#ifndef MGPU_JOBS_HTTP_SEAL_SSL_H
#define MGPU_JOBS_HTTP_SEAL_SSL_H

#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum {
    SEAL_KEY_BYTES = 32,
    SEAL_TEXT_MAX = 32768, /* bytes of a text that is sealed */
};

/* Appends `text` sealed: letters, digits, '+', '/' and '='. Each time it is
 * another text, for its first 12 bytes are random.
 *
 * in   about  what it is the value of; it is opened under the same name only
 * err  ERR_LIMIT text is longer than SEAL_TEXT_MAX; ERR_EXTERN libcrypto or
 *      the system's random bytes refused; out is untouched */
int seal_text(const unsigned char key[SEAL_KEY_BYTES], const char *about,
              const char *text, struct buf *out, struct error *err) MUST_CHECK;

/* The text again.
 *
 * err  ERR_INVAL it is not what seal_text() wrote with this key and name
 * own  *ret: the caller overwrites and frees it */
int seal_open(const unsigned char key[SEAL_KEY_BYTES], const char *about,
              const char *sealed, char **ret, struct error *err) MUST_CHECK;

#endif
