/* cred_munge.h - who sent this, vouched for by MUNGE.
 *
 * A credential says "uid N asked for this, a moment ago": munged on the
 * sender's machine makes it, with the uid that the kernel tells it, and munged
 * on the receiver's opens it, once. Both share a key. Each call speaks to
 * munged over its socket and blocks: a millisecond, or, when munged hangs,
 * some seconds.
 *
 * in  socket  of munged; NULL: the one that libmunge knows
 */
#ifndef MGPU_JOBS_HTTP_CRED_MUNGE_H
#define MGPU_JOBS_HTTP_CRED_MUNGE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum { CRED_TEXT_CAP = 128 };

#if HAVE_MUNGE

/* Appends a credential for `text` to out, in the name of the process.
 *
 * err  ERR_UNAVAIL munged does not answer; ERR_EXTERN it refuses */
int cred_make(const char *socket, const char *text, struct buf *out,
              struct error *err) MUST_CHECK;

/* out  *ret_uid  who made it; text  what for
 * err  ERR_DENIED it is not valid, expired, used before, from the future, or
 *      for a text of CRED_TEXT_CAP bytes and more; ERR_UNAVAIL munged does
 *      not answer */
int cred_open(const char *socket, const char *cred, int64_t *ret_uid,
              char text[CRED_TEXT_CAP], struct error *err) MUST_CHECK;

#else

static inline int cred_make(const char *socket, const char *text,
                            struct buf *out, struct error *err)
{
    (void)socket;
    (void)text;
    (void)out;
    return error_set(err, ERR_CONFIG, "this mgpu was built without MUNGE");
}

static inline int cred_open(const char *socket, const char *cred,
                            int64_t *ret_uid, char text[CRED_TEXT_CAP],
                            struct error *err)
{
    (void)socket;
    (void)cred;
    (void)ret_uid;
    (void)text;
    return error_set(err, ERR_CONFIG, "this mgpu was built without MUNGE");
}

#endif
#endif
