/* idx.c - see idx.h. Nothing in a file is trusted: a header's sizes are
 * bounded before memory is taken, and every short read is named with the
 * offset (in the unpacked file) where it happened. */
#include "worker/data/image/idx.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "jobs/base/plain_file.h"

enum { TYPE_U8 = 0x08, CHUNK = 1 << 20 };

struct reader {
    const char *path;
    gzFile f;
    int64_t at;   /* offset in the unpacked file */
    int64_t size; /* of the file as it is */
};

static int bad(const struct reader *r, int64_t at, const char *what,
               struct error *err)
{
    (void)error_set(err, ERR_INVAL, "%s: offset %lld: %s", r->path,
                    (long long)at, what);
    return -1;
}

/* Explains a read that returned less than was asked for. */
static int short_read(const struct reader *r, struct error *err)
{
    int code = Z_OK;
    const char *text = gzerror(r->f, &code);
    if (code == Z_ERRNO)
        return error_sys(err, errno, "%s: offset %lld", r->path,
                         (long long)r->at);
    if (code == Z_OK || code == Z_BUF_ERROR)
        return bad(r, r->at, "the file ends too early", err);
    return error_set(err, ERR_INVAL, "%s: offset %lld: bad gzip data: %s",
                     r->path, (long long)r->at, text);
}

static int read_all(struct reader *r, uint8_t *p, int64_t n, struct error *err)
{
    while (n > 0) {
        unsigned ask = n > CHUNK ? CHUNK : (unsigned)n;
        int got = gzread(r->f, p, ask);
        if (got > 0) {
            p += got;
            n -= got;
            r->at += got;
        }
        if (got < (int)ask)
            return short_read(r, err);
    }
    return 0;
}

static int read_header(struct reader *r, int32_t dims,
                       int32_t ret_dim[IDX_DIMS], struct error *err)
{
    uint8_t b[4 + 4 * IDX_DIMS];
    if (read_all(r, b, 4, err) < 0)
        return -1;
    if (b[0] != 0 || b[1] != 0)
        return bad(r, 0, "not an IDX file", err);
    if (b[2] != TYPE_U8)
        return bad(r, 2, "the type is not unsigned bytes", err);
    if (b[3] != dims)
        return error_set(err, ERR_INVAL,
                         "%s: offset 3: not %s: the dimensions are not %d",
                         r->path, dims == 1 ? "a list" : "images", dims);
    if (read_all(r, b + 4, 4 * (int64_t)dims, err) < 0)
        return -1;
    for (int32_t i = 0; i < dims; i++) {
        const uint8_t *p = b + 4 + 4 * (size_t)i;
        uint32_t v = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
                     (uint32_t)p[2] << 8 | p[3];
        if (v == 0 || v > INT32_MAX)
            return bad(r, 4 + 4 * (int64_t)i, "a dimension is out of range",
                       err);
        ret_dim[i] = (int32_t)v;
    }
    return 0;
}

/* The end of the file: no byte follows, and gzip's checksum was right. */
static int expect_end(struct reader *r, struct error *err)
{
    uint8_t b;
    int code = Z_OK;
    if (gzread(r->f, &b, 1) > 0)
        return bad(r, r->at, "bytes follow the last item", err);
    (void)gzerror(r->f, &code);
    return code == Z_OK || code == Z_STREAM_END ? 0 : short_read(r, err);
}

/* How many bytes to read, bounded before anything is allocated; or -1. */
static int64_t count_bytes(const struct reader *r, const int32_t *dim,
                           int32_t dims, int32_t items, struct error *err)
{
    const int64_t most = 1LL << 31;
    const int64_t deflate_ratio = 1032; /* it packs no better than that */
    int64_t bytes = items;
    for (int32_t i = 1; i < dims; i++) {
        if (bytes > most / dim[i]) {
            (void)error_set(err, ERR_LIMIT, "%s: more than 2^31 bytes",
                            r->path);
            return -1;
        }
        bytes *= dim[i];
    }
    if (bytes / deflate_ratio > r->size) {
        (void)error_set(err, ERR_INVAL,
                        "%s: offset 4: the file ends too early: its header "
                        "says %lld bytes, and it has %lld",
                        r->path, (long long)bytes, (long long)r->size);
        return -1;
    }
    return bytes;
}

static int read_file(struct reader *r, int32_t dims, int32_t items,
                     int32_t ret_dim[IDX_DIMS], uint8_t **ret,
                     struct error *err)
{
    int32_t dim[IDX_DIMS] = {0};
    if (read_header(r, dims, dim, err) < 0)
        return -1;
    if (items > dim[0])
        return error_set(err, ERR_INVAL,
                         "%s: offset 4: %d items, %d are asked for", r->path,
                         dim[0], items);
    bool whole = items == 0 || items == dim[0];
    int64_t bytes = count_bytes(r, dim, dims, whole ? dim[0] : items, err);
    if (bytes <= 0)
        return -1;
    uint8_t *p = malloc((size_t)bytes);
    if (!p)
        return error_set(err, ERR_NOMEM, "%s: %lld bytes", r->path,
                         (long long)bytes);
    if (read_all(r, p, bytes, err) < 0 || (whole && expect_end(r, err) < 0)) {
        free(p);
        return -1;
    }
    for (int32_t i = 0; i < dims; i++)
        ret_dim[i] = dim[i];
    *ret = p;
    return 0;
}

/* A regular file that zlib can read; NULL and err. */
static gzFile open_file(const char *path, int64_t *ret_size, struct error *err)
{
    struct stat st;
    int fd = plain_file_open(path, 0, &st, err);
    gzFile f = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (f) {
        *ret_size = st.st_size;
    } else if (fd >= 0) {
        (void)error_set(err, ERR_NOMEM, "%s: out of memory", path);
        (void)close(fd);
    }
    return f;
}

int idx_read(const char *path, int32_t dims, int32_t items,
             int32_t ret_dim[IDX_DIMS], uint8_t **ret, struct error *err)
{
    struct reader r = {.path = path};
    r.f = open_file(path, &r.size, err);
    if (!r.f)
        return -1;
    int rc = read_file(&r, dims, items, ret_dim, ret, err);
    (void)gzclose_r(r.f); /* only read; what it reports was seen above */
    return rc;
}
