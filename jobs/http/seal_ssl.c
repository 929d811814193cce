/* seal_ssl.c - see seal_ssl.h. The bytes are a nonce, what is sealed, and the
 * tag that proves both and the name. */
/* libcrypto has a type of the name of one of our error codes. */
#define ERR_STATE openssl_err_state
#include <openssl/crypto.h>
#include <openssl/evp.h>
#undef ERR_STATE

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "jobs/http/seal_ssl.h"

enum {
    NONCE = 12,
    TAG = 16,
    RAW_MAX = NONCE + SEAL_TEXT_MAX + TAG,
    BASE64_MAX = (RAW_MAX + 2) / 3 * 4,
};

/* Either way as far as the tag; the lengths fit an int. */
static bool begin(EVP_CIPHER_CTX *ctx, const unsigned char *key,
                  const unsigned char *nonce, const char *about, bool seals)
{
    int n = 0;
    return EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, nonce, seals) ==
               1 &&
           EVP_CipherUpdate(ctx, NULL, &n, (const unsigned char *)about,
                            (int)strlen(about)) == 1;
}

static bool encrypt(const unsigned char *key, const char *about,
                    const char *text, size_t len, unsigned char *raw)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    unsigned char *at = raw + NONCE;
    int n = 0, rest = 0;
    bool good =
        ctx && begin(ctx, key, raw, about, true) &&
        EVP_CipherUpdate(ctx, at, &n, (const unsigned char *)text, (int)len) ==
            1 &&
        EVP_CipherFinal_ex(ctx, at + n, &rest) == 1 &&
        (size_t)n + (size_t)rest == len &&
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG, at + len) == 1;
    EVP_CIPHER_CTX_free(ctx);
    return good;
}

/* No byte of text is of use before the tag is known to be right. */
static bool decrypt(const unsigned char *key, const char *about,
                    unsigned char *raw, size_t len, char *text)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    unsigned char *at = (unsigned char *)text;
    int n = 0, rest = 0;
    bool good = ctx && begin(ctx, key, raw, about, false) &&
                EVP_CipherUpdate(ctx, at, &n, raw + NONCE, (int)len) == 1 &&
                EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG,
                                    raw + NONCE + len) == 1 &&
                EVP_CipherFinal_ex(ctx, at + n, &rest) == 1 &&
                (size_t)n + (size_t)rest == len;
    EVP_CIPHER_CTX_free(ctx);
    return good;
}

static int add_base64(const unsigned char *raw, size_t len, struct buf *out,
                      struct error *err)
{
    size_t n = (len + 2) / 3 * 4;
    unsigned char *text = malloc(n + 1);
    if (!text)
        return error_set(err, ERR_NOMEM, "seal");
    (void)EVP_EncodeBlock(text, raw, (int)len);
    int rc = buf_add(out, text, n, err);
    free(text);
    return rc;
}

int seal_text(const unsigned char key[SEAL_KEY_BYTES], const char *about,
              const char *text, struct buf *out, struct error *err)
{
    size_t len = strlen(text);
    if (len > SEAL_TEXT_MAX)
        return error_set(err, ERR_LIMIT, "longer than %d bytes", SEAL_TEXT_MAX);
    unsigned char *raw = malloc(NONCE + len + TAG);
    if (!raw)
        return error_set(err, ERR_NOMEM, "seal");
    int rc = rng_secret(raw, NONCE, err);
    if (rc == 0 && !encrypt(key, about, text, len, raw))
        rc = error_set(err, ERR_EXTERN, "libcrypto has no AES-256-GCM");
    if (rc == 0)
        rc = add_base64(raw, NONCE + len + TAG, out, err);
    free(raw);
    return rc;
}

/* How many bytes of raw the text is; 0: it is none. */
static size_t from_base64(const char *text, size_t n, unsigned char *raw)
{
    static const char known[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t body = strspn(text, known), pad = n - body;
    if (n == 0 || n % 4 != 0 || n > BASE64_MAX || pad > 2 ||
        strspn(text + body, "=") != pad)
        return 0;
    int got = EVP_DecodeBlock(raw, (const unsigned char *)text, (int)n);
    return got < 0 ? 0 : (size_t)got - pad;
}

int seal_open(const unsigned char key[SEAL_KEY_BYTES], const char *about,
              const char *sealed, char **ret, struct error *err)
{
    size_t n = strlen(sealed);
    unsigned char *raw = malloc(n + 1);
    char *text = malloc(n + 1);
    size_t len = raw && text ? from_base64(sealed, n, raw) : 0;
    bool good =
        len >= NONCE + TAG && decrypt(key, about, raw, len - NONCE - TAG, text);
    int rc = !raw || !text ? error_set(err, ERR_NOMEM, "seal")
             : good        ? 0
                           : error_set(err, ERR_INVAL,
                                       "the value of '%.64s' was not sealed with "
                                              "this key",
                                       about);
    free(raw);
    if (rc < 0) {
        if (text)
            explicit_bzero(text, n + 1);
        free(text);
        return -1;
    }
    text[len - NONCE - TAG] = '\0';
    *ret = text;
    return 0;
}
