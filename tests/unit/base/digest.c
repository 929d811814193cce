/* digest.c - SHA-256 and HMAC-SHA256 against published vectors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/http/digest_ssl.h"
#include "tests/tap.h"

/* Of <openssl/crypto.h>, which has an ERR_STATE of its own. */
int CRYPTO_set_mem_functions(void *(*get)(size_t, const char *, int),
                             void *(*get_more)(void *, size_t, const char *,
                                               int),
                             void (*give_back)(void *, const char *, int));

static int left = -1; /* of libcrypto's allocations; -1: all succeed */

static bool is_refused(void)
{
    return left >= 0 && left-- == 0;
}

static void *get(size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return is_refused() ? NULL : malloc(n);
}

static void *get_more(void *p, size_t n, const char *file, int line)
{
    (void)file, (void)line;
    return is_refused() ? NULL : realloc(p, n);
}

static void give_back(void *p, const char *file, int line)
{
    (void)file, (void)line;
    free(p);
}

/* Who is told that passes tries again; what does not holds a job for good. */
static void test_no_memory(void)
{
    char got[DIGEST_HEX_CAP];
    struct error err = ERROR_INIT;
    int n = 0, n_other = 0;
    for (;; n++) {
        left = n;
        int rc = digest_hmac("Jefe", 4, "what", 4, got, &err);
        bool was_all = left >= 0;
        left = -1;
        if (was_all)
            break;
        n_other += rc < 0 && err.code != ERR_NOMEM;
    }
    ok(n > 0, "%d allocations of libcrypto were failed", n);
    is_int(n_other, 0, "each is want of memory, or does not matter");
    is_int(digest_hmac("Jefe", 4, "what", 4, got, &err), 0, "it passes");
}

static void hmac(int n, const void *key, size_t key_len, const char *text,
                 size_t len, const char *want)
{
    char got[DIGEST_HEX_CAP] = "";
    struct error err = ERROR_INIT;
    is_int(digest_hmac(key, key_len, text, len, got, &err), 0, "HMAC");
    is_str(got, want, "RFC 4231, test case");
    tap_diag("  case %d", n);
}

static void test_hmac(void)
{
    unsigned char k1[20], k4[25], ka[131];
    char dd[50], cd[50];
    static const char hi[] = "Hi There",
                      jefe[] = "what do ya want for nothing?",
                      t6[] = "Test Using Larger Than Block-Size Key - Hash Key "
                             "First",
                      t7[] = "This is a test using a larger than block-size "
                             "key and a larger than block-size data. The key "
                             "needs to be hashed before being used by the HMAC "
                             "algorithm.";
    memset(k1, 0x0b, sizeof(k1));
    memset(ka, 0xaa, sizeof(ka));
    memset(dd, 0xdd, sizeof(dd));
    memset(cd, 0xcd, sizeof(cd));
    for (size_t i = 0; i < sizeof(k4); i++)
        k4[i] = (unsigned char)(i + 1);
    hmac(1, k1, 20, hi, sizeof(hi) - 1,
         "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    hmac(2, "Jefe", 4, jefe, sizeof(jefe) - 1,
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    hmac(3, ka, 20, dd, 50,
         "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    hmac(4, k4, 25, cd, 50,
         "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    hmac(6, ka, 131, t6, sizeof(t6) - 1,
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    hmac(7, ka, 131, t7, sizeof(t7) - 1,
         "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

/* The wanted ones are sha256sum's, of the bytes that digest_ssl.h names. */
static void test_parts(void)
{
    struct digest_part one[] = {{"abc", 3}}, two[] = {{"ab", 2}, {"c", 1}},
                       gap[] = {{"ab", 2}, {NULL, 0}, {"c", 1}};
    char a[DIGEST_HEX_CAP], b[DIGEST_HEX_CAP];
    struct error err = ERROR_INIT;
    is_int(digest_parts(NULL, 0, a, &err), 0, "of nothing");
    is_str(a,
           "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
           "as FIPS 180 has it");
    is_int(digest_parts(one, 1, a, &err), 0, "of one part");
    is_str(a,
           "c3494ca1a2cf8eeb8a11ded316fb55b83c3bbbedb6313cd50415251e5d09e12f",
           "with its length");
    is_int(digest_parts(two, 2, b, &err), 0, "of the same bytes in two");
    is_str(b,
           "601d5476e2ccfe2c87a2bba7a322659734a05749d5b5aa781f513e4912db0d5f",
           "is another");
    is_int(digest_parts(gap, 3, a, &err), 0, "and with an empty one");
    ok(strcmp(a, b) != 0, "another still");
}

static void test_same(void)
{
    char a[70], b[70];
    memset(a, 'f', sizeof(a));
    a[64] = '\0';
    memcpy(b, a, sizeof(b));
    ok(digest_same(a, b), "the same");
    for (size_t i = 0; i < 64; i++) {
        b[i] = 'e';
        if (digest_same(a, b))
            ok(false, "a wrong digit at %zu", i);
        b[i] = 'f';
    }
    b[63] = '\0';
    ok(!digest_same(a, b) && !digest_same(b, a), "a shorter one");
    ok(!digest_same(b, b), "two that are no digests");
    ok(!digest_same("", ""), "nothing and nothing");
    memcpy(b, "ffff", 4);
    b[63] = b[64] = 'f';
    b[65] = '\0';
    ok(!digest_same(a, b) && !digest_same(b, a), "a longer one");
    ok(!digest_same(b, b), "twice a longer one");
}

int main(void)
{
    ok(CRYPTO_set_mem_functions(get, get_more, give_back) == 1,
       "libcrypto asks us for memory");
    test_hmac();
    test_parts();
    test_same();
    test_no_memory();
    return tap_done();
}
