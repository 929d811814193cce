/* ca_ssl.c - see ca_ssl.h. */
/* libcrypto has a type of the name of one of our error codes. */
#define ERR_STATE openssl_err_state
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#undef ERR_STATE

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/http/ca_ssl.h"

/* The bundles of distributions have a quarter of that. */
enum { BYTES_MAX = 1 << 20 };

/* How many there are; -1: one is damaged. */
static int count(const char *text, size_t len)
{
    BIO *bio = BIO_new_mem_buf(text, (int)len);
    X509 *cert;
    int n = 0;

    while (bio && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        X509_free(cert);
        n++;
    }
    unsigned long why = ERR_peek_last_error();
    bool at_end = ERR_GET_LIB(why) == ERR_LIB_PEM &&
                  ERR_GET_REASON(why) == PEM_R_NO_START_LINE;
    ERR_clear_error();
    (void)BIO_free(bio);
    return bio && at_end ? n : -1;
}

static const char *fault(const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return "is no plain file";
    if (st->st_uid != 0 && st->st_uid != geteuid())
        return "belongs to another user";
    return (st->st_mode & (S_IWGRP | S_IWOTH)) != 0
               ? "can be written to by other users"
               : NULL;
}

int ca_check(const char *path, struct error *err)
{
    struct stat st;
    struct buf text = BUF_INIT;
    struct error cause = ERROR_INIT;
    const char *why;

    if (stat(path, &st) < 0)
        return error_set(err, ERR_CONFIG, "'%s': %s", path, strerror(errno));
    why = fault(&st);
    if (!why && buf_read_file(&text, path, BYTES_MAX, &cause) < 0)
        why = cause.msg;
    int n = why ? 0 : count(buf_str(&text), text.len);
    if (!why && n < 1)
        why = n < 0 ? "has a certificate that is damaged"
                    : "has no certificate in PEM form";
    int rc = why ? error_set(err, ERR_CONFIG, "'%s' %s", path, why) : 0;
    buf_clear(&text);
    return rc;
}
