/* cred.c - MUNGE credentials: made, opened, refused; and what a request's
 * digest depends on. */
#include "jobs/http/cred_munge.h"
#include "jobs/http/http_digest.h"
#include "tests/munged.h"

#if HAVE_MUNGE
#include <munge.h>

static struct munged one, two;

static void make(const struct munged *m, const char *text, struct buf *out)
{
    struct error err = ERROR_INIT;
    buf_reset(out);
    if (cred_make(m->socket, text, out, &err) < 0)
        tap_diag("%s", err.msg);
}

/* With an option that cred_make() has not. */
static void make_with(munge_opt_t opt, int value, const void *data, int len,
                      struct buf *out)
{
    munge_ctx_t ctx = munge_ctx_create();
    char *cred = NULL;
    buf_reset(out);
    if (munge_ctx_set(ctx, MUNGE_OPT_SOCKET, one.socket) != EMUNGE_SUCCESS ||
        munge_ctx_set(ctx, (int)opt, value) != EMUNGE_SUCCESS ||
        munge_encode(&cred, ctx, data, len) != EMUNGE_SUCCESS ||
        buf_addstr(out, cred, NULL) < 0)
        exit(1);
    free(cred);
    munge_ctx_destroy(ctx);
}

static void refused(const char *socket, const char *cred, enum err_code code,
                    const char *why, const char *what)
{
    struct error err = ERROR_INIT;
    char text[CRED_TEXT_CAP] = "untouched";
    int64_t uid = -7;
    int rc = cred_open(socket, cred, &uid, text, &err);
    ok(rc < 0 && err.code == code && strstr(err.msg, why), "%s: %s", what,
       err.msg);
    ok(uid == -7 && strcmp(text, "untouched") == 0, "  and gives nothing");
}

static void test_round(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    char text[CRED_TEXT_CAP], big[CRED_TEXT_CAP + 1];
    int64_t uid = -1;
    make(&one, "hello", &b);
    is_int(cred_open(one.socket, buf_str(&b), &uid, text, &err), 0, "opened");
    is_int(uid, (long long)getuid(), "who made it");
    is_str(text, "hello", "what for");
    refused(one.socket, buf_str(&b), ERR_DENIED, "used before", "once more");
    make(&one, "", &b);
    is_int(cred_open(one.socket, buf_str(&b), &uid, text, &err), 0,
           "for nothing");
    is_str(text, "", "is fine");
    memset(big, 'x', sizeof(big));
    big[CRED_TEXT_CAP - 1] = '\0';
    make(&one, big, &b);
    is_int(cred_open(one.socket, buf_str(&b), &uid, text, &err), 0,
           "the longest");
    is_str(text, big, "comes whole");
    big[CRED_TEXT_CAP - 1] = 'x';
    big[CRED_TEXT_CAP] = '\0';
    make(&one, big, &b);
    refused(one.socket, buf_str(&b), ERR_DENIED, "something else", "too long");
    make_with(MUNGE_OPT_TTL, 60, "a\0b", 3, &b);
    refused(one.socket, buf_str(&b), ERR_DENIED, "something else", "a NUL");
    buf_clear(&b);
}

static void test_refused(void)
{
    struct buf b = BUF_INIT, probe = BUF_INIT;
    make(&two, "hello", &b);
    refused(one.socket, buf_str(&b), ERR_DENIED, "another key", "of another");
    make(&one, "hello", &b);
    /* A character in the middle, which may be any of the alphabet. */
    b.data[b.len / 2] = b.data[b.len / 2] == 'A' ? 'B' : 'A';
    refused(one.socket, buf_str(&b), ERR_DENIED, "refused", "one changed");
    refused(one.socket, "MUNGE:garbage:", ERR_DENIED, "refused", "garbage");
    refused(one.socket, "", ERR_DENIED, "cannot be read", "nothing");
    make_with(MUNGE_OPT_UID_RESTRICTION, (int)getuid() + 1, "hello", 5, &b);
    refused(one.socket, buf_str(&b), ERR_DENIED, "somebody else", "not for us");

    make_with(MUNGE_OPT_TTL, 1, "hello", 5, &b);
    make_with(MUNGE_OPT_TTL, 1, "probe", 5, &probe);
    /* Until the later of the two says so, the earlier one has not been shown
     * to anybody. */
    munge_ctx_t ctx = munge_ctx_create();
    (void)munge_ctx_set(ctx, MUNGE_OPT_SOCKET, one.socket);
    munge_err_t e = EMUNGE_SUCCESS;
    for (int i = 0; i < 3000 && e != EMUNGE_CRED_EXPIRED; i++) {
        e = munge_decode(buf_str(&probe), ctx, NULL, NULL, NULL, NULL);
        (void)poll(NULL, 0, e == EMUNGE_CRED_EXPIRED ? 0 : 20);
    }
    munge_ctx_destroy(ctx);
    refused(one.socket, buf_str(&b), ERR_DENIED, "expired", "too late");
    buf_clear(&probe);
    buf_clear(&b);
}

static void test_away(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    make(&one, "hello", &b);
    munged_stop(&one);
    refused(one.socket, buf_str(&b), ERR_UNAVAIL, "munged does not answer",
            "nobody there");
    buf_reset(&b);
    ok(cred_make(one.socket, "hello", &b, &err) < 0 &&
           err.code == ERR_UNAVAIL && b.len == 0,
       "nor to make one: %s", err.msg);
    buf_clear(&b);
}

static void test_munge(void)
{
    if (!munged_start(&one) || !munged_start(&two)) {
        ok(false, "munged did not start");
        return;
    }
    test_round();
    test_refused();
    test_away();
    munged_stop(&two);
}
#else
static void test_munge(void)
{
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    ok(cred_make(NULL, "x", &b, &err) < 0 && err.code == ERR_CONFIG,
       "built without: %s", err.msg);
}
#endif

static void test_digest(void)
{
    static const struct http_request like = {.method = "POST",
                                             .path = "/v1/jobs?x=1",
                                             .body = "{}",
                                             .body_len = 2,
                                             .idempotency_key = "k"};
    struct http_request r[6] = {like, like, like, like, like, like};
    char want[DIGEST_HEX_CAP], got[DIGEST_HEX_CAP];
    struct error err = ERROR_INIT;
    is_int(http_request_digest(&like, want, &err), 0, "a digest");
    is_str(want,
           "422c1357d19746c484686440a6969a7fef3bc2fb824db24529e988fdd7d292fc",
           "as http_digest.h says");
    r[0].method = "GET";
    r[1].path = "/v1/jobs?x=2";
    r[2].body = "[]";
    r[3].body_len = 1;
    r[4].idempotency_key = NULL;
    r[5].idempotency_key = "l";
    for (size_t i = 0; i < 6; i++) {
        ok(http_request_digest(&r[i], got, &err) == 0 && strcmp(got, want) != 0,
           "another request, %zu", i);
    }
    r[0] = like;
    r[0].content_type = "text/plain";
    is_int(http_request_digest(&r[0], got, &err), 0, "of another type");
    is_str(got, want, "is the same");
}

int main(void)
{
    test_digest();
    test_munge();
    return tap_done();
}
