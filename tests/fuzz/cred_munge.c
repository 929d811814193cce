/* cred_munge.c - libFuzzer: what munged hands back for a credential, and what
 * the daemon makes of it. The first bytes are munged's verdict and the uid.
 *
 * Only an unblemished credential opens, for exactly the text that it is for,
 * and what it is for is one request.
 */
#include <munge.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/http/cred_munge.h"
#include "jobs/http/http_digest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- libmunge, with the input for an answer --------------------------------
 */
static struct {
    munge_err_t verdict;
    uid_t uid;
    const uint8_t *text;
    size_t len;
} answer;

munge_ctx_t munge_ctx_create(void)
{
    return malloc(1);
}

void munge_ctx_destroy(munge_ctx_t ctx)
{
    free(ctx);
}

munge_err_t munge_ctx_set(munge_ctx_t ctx, int opt, ...)
{
    (void)ctx, (void)opt;
    return EMUNGE_SUCCESS;
}

const char *munge_ctx_strerror(munge_ctx_t ctx)
{
    (void)ctx;
    return NULL;
}

const char *munge_strerror(munge_err_t e)
{
    (void)e;
    return "why not";
}

munge_err_t munge_encode(char **cred, munge_ctx_t ctx, const void *buf, int len)
{
    (void)ctx, (void)buf, (void)len;
    *cred = strdup("MUNGE:");
    return EMUNGE_SUCCESS;
}

/* As it does: the text is there also where the verdict is that it is not to
 * be used, and a byte that len does not count is '\0'. */
munge_err_t munge_decode(const char *cred, munge_ctx_t ctx, void **buf,
                         int *len, uid_t *uid, gid_t *gid)
{
    (void)cred, (void)ctx, (void)gid;
    char *text = malloc(answer.len + 1);
    if (!text)
        abort();
    memcpy(text, answer.text, answer.len);
    text[answer.len] = '\0';
    *buf = answer.len > 0 ? text : NULL;
    if (answer.len == 0)
        free(text);
    *len = (int)answer.len;
    *uid = answer.uid;
    return answer.verdict;
}

/* ---------------------------------------------------------------------------
 */
static void check_digest(const char *text)
{
    char want[DIGEST_HEX_CAP];
    struct http_request req = {.method = "GET", .path = "/v1/jobs"};
    if (http_request_digest(&req, want, NULL) < 0 ||
        digest_same(want, text) != (strcmp(want, text) == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char text[CRED_TEXT_CAP];
    struct error err = ERROR_INIT;
    int64_t uid = -7;
    if (size < 5)
        return 0;
    answer.verdict = (munge_err_t)(data[0] % 32);
    memcpy(&answer.uid, data + 1, 4);
    answer.text = data + 5;
    answer.len = size - 5;
    memset(text, 'x', sizeof(text));
    int rc = cred_open(NULL, "MUNGE:", &uid, text, &err);
    bool is_fine = answer.verdict == EMUNGE_SUCCESS &&
                   answer.uid != (uid_t)-1 && answer.len < sizeof(text) &&
                   !memchr(answer.text, '\0', answer.len);
    if ((rc == 0) != is_fine)
        abort();
    if (rc < 0) {
        if (uid != -7 || text[0] != 'x' || err.code == ERR_NONE ||
            err.msg[0] == '\0')
            abort();
        return 0;
    }
    if (uid != (int64_t)answer.uid || strlen(text) != answer.len ||
        memcmp(text, answer.text, answer.len) != 0)
        abort();
    check_digest(text);
    return 0;
}
