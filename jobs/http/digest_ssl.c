/* digest_ssl.c - see digest_ssl.h. */
/* libcrypto has a type of the name of one of our error codes. */
#define ERR_STATE openssl_err_state
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#undef ERR_STATE

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "jobs/http/digest_ssl.h"

enum { RAW = 32 };

static void hex(const unsigned char raw[RAW], char ret[DIGEST_HEX_CAP])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < RAW; i++) {
        ret[2 * i] = digits[raw[i] >> 4];
        ret[2 * i + 1] = digits[raw[i] & 15];
    }
    ret[DIGEST_HEX_CAP - 1] = '\0';
}

int digest_hmac(const void *key, size_t key_len, const char *text, size_t len,
                char ret[DIGEST_HEX_CAP], struct error *err)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int n = 0;
    assert(key_len <= INT_MAX);
    if (!HMAC(EVP_sha256(), key, (int)key_len, (const unsigned char *)text, len,
              raw, &n) ||
        n != RAW)
        /* There is no libcrypto without it: what it lacks is memory. */
        return error_set(err, ERR_NOMEM, "HMAC-SHA256: out of memory");
    hex(raw, ret);
    OPENSSL_cleanse(raw, sizeof(raw));
    return 0;
}

static bool add(EVP_MD_CTX *ctx, const struct digest_part *p)
{
    unsigned char len[8];
    for (size_t i = 0; i < sizeof(len); i++)
        len[i] = (unsigned char)((uint64_t)p->len >> (8 * (7 - i)));
    return EVP_DigestUpdate(ctx, len, sizeof(len)) == 1 &&
           (p->len == 0 || EVP_DigestUpdate(ctx, p->data, p->len) == 1);
}

int digest_parts(const struct digest_part *parts, size_t n,
                 char ret[DIGEST_HEX_CAP], struct error *err)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    unsigned int len = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool good = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
    for (size_t i = 0; good && i < n; i++)
        good = add(ctx, &parts[i]);
    good = good && EVP_DigestFinal_ex(ctx, raw, &len) == 1 && len == RAW;
    EVP_MD_CTX_free(ctx);
    if (!good)
        return error_set(err, ERR_EXTERN, "libcrypto has no SHA-256");
    hex(raw, ret);
    return 0;
}

bool digest_same(const char *want, const char *got)
{
    char a[DIGEST_HEX_CAP] = "", b[DIGEST_HEX_CAP] = "";
    size_t na = strnlen(want, sizeof(a)), nb = strnlen(got, sizeof(b));
    memcpy(a, want, na < sizeof(a) ? na : sizeof(a) - 1);
    memcpy(b, got, nb < sizeof(b) ? nb : sizeof(b) - 1);
    bool long_enough = na == sizeof(a) - 1 && nb == sizeof(b) - 1;
    return CRYPTO_memcmp(a, b, sizeof(a)) == 0 && long_enough;
}
