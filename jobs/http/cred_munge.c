/* cred_munge.c - see cred_munge.h. */
#include "jobs/http/cred_munge.h"

#include <limits.h>
#include <munge.h>
#include <stdlib.h>
#include <string.h>

/* One context per call: they are not to be shared between threads, and
 * creating one is nothing beside the way to munged and back. */
static int make_ctx(const char *socket, munge_ctx_t *ret, struct error *err)
{
    munge_ctx_t ctx = munge_ctx_create();
    if (!ctx)
        return error_set(err, ERR_NOMEM, "credential");
    if (socket &&
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, socket) != EMUNGE_SUCCESS) {
        (void)error_set(err, ERR_CONFIG, "munged's socket '%s': %s", socket,
                        munge_ctx_strerror(ctx));
        munge_ctx_destroy(ctx);
        return -1;
    }
    *ret = ctx;
    return 0;
}

/* What a person can do about it, where there is something. */
static const char *denial(munge_err_t e)
{
    switch (e) {
    case EMUNGE_BAD_LENGTH:
    case EMUNGE_BAD_ARG:
    case EMUNGE_BAD_CRED:
    case EMUNGE_BAD_VERSION:
    case EMUNGE_BAD_CIPHER:
    case EMUNGE_BAD_MAC:
    case EMUNGE_BAD_ZIP:
        return "it cannot be read";
    case EMUNGE_BAD_REALM:
    case EMUNGE_CRED_INVALID:
        return "it was changed, or made with another key: both machines need "
               "the same munge.key";
    case EMUNGE_CRED_EXPIRED:
        return "it has expired: compare the machines' clocks";
    case EMUNGE_CRED_REWOUND:
        return "it is from the future: compare the machines' clocks";
    case EMUNGE_CRED_REPLAYED:
        return "it was used before";
    case EMUNGE_CRED_UNAUTHORIZED:
        return "it is for somebody else";
    default:
        return NULL;
    }
}

static int fail(munge_ctx_t ctx, munge_err_t e, struct error *err)
{
    const char *why = munge_ctx_strerror(ctx);
    if (!why)
        why = munge_strerror(e);
    if (denial(e))
        return error_set(err, ERR_DENIED, "the MUNGE credential is refused: %s",
                         denial(e));
    if (e == EMUNGE_NO_MEMORY)
        return error_set(err, ERR_NOMEM, "credential");
    if (e == EMUNGE_SOCKET || e == EMUNGE_TIMEOUT)
        return error_set(err, ERR_UNAVAIL, "munged does not answer: %s", why);
    return error_set(err, ERR_EXTERN, "MUNGE: %s", why);
}

int cred_make(const char *socket, const char *text, struct buf *out,
              struct error *err)
{
    munge_ctx_t ctx;
    char *cred = NULL;
    size_t len = strlen(text);
    if (len > INT_MAX)
        return error_set(err, ERR_INVAL, "a credential for so long a text");
    if (make_ctx(socket, &ctx, err) < 0)
        return -1;
    munge_err_t e = munge_encode(&cred, ctx, text, (int)len);
    int rc =
        e == EMUNGE_SUCCESS ? buf_addstr(out, cred, err) : fail(ctx, e, err);
    free(cred);
    munge_ctx_destroy(ctx);
    return rc;
}

int cred_open(const char *socket, const char *cred, int64_t *ret_uid,
              char text[CRED_TEXT_CAP], struct error *err)
{
    munge_ctx_t ctx;
    void *data = NULL;
    int len = 0;
    uid_t uid = (uid_t)-1;
    if (make_ctx(socket, &ctx, err) < 0)
        return -1;
    /* A credential that has expired or was used before is opened, too: the
     * error is all that makes the difference. */
    munge_err_t e = munge_decode(cred, ctx, &data, &len, &uid, NULL);
    int rc = 0;
    if (e != EMUNGE_SUCCESS)
        rc = fail(ctx, e, err);
    else if (uid == (uid_t)-1 || len < 0 || len >= CRED_TEXT_CAP ||
             (len > 0 && memchr(data, '\0', (size_t)len)))
        rc = error_set(err, ERR_DENIED,
                       "the MUNGE credential is refused: it is for something "
                       "else");
    if (rc == 0) {
        if (len > 0)
            memcpy(text, data, (size_t)len);
        text[len] = '\0';
        *ret_uid = (int64_t)uid;
    }
    free(data);
    munge_ctx_destroy(ctx);
    return rc;
}
