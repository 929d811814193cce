/* gz_text.c - see gz_text.h. zlib passes a file through that is not
 * compressed. */
#include "scheduler/sim/trace/gz_text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 16 };

static int read_all(gzFile file, struct buf *ret, struct error *err)
{
    char chunk[CHUNK];
    int n;

    while ((n = gzread(file, chunk, sizeof(chunk))) > 0) {
        if (ret->len + (size_t)n > GZ_TEXT_MAX)
            return error_set(err, ERR_LIMIT, "over %d MiB",
                             GZ_TEXT_MAX / (1 << 20));
        if (memchr(chunk, '\0', (size_t)n))
            return error_set(err, ERR_INVAL, "not a text: it has a NUL byte");
        if (buf_add(ret, chunk, (size_t)n, err) < 0)
            return -1;
    }
    if (n < 0)
        return error_set(err, ERR_INVAL, "damaged gzip data");
    return 0;
}

/* zlib reports a truncated file only at the end. */
static int close_file(gzFile file, int rc, struct error *err)
{
    int closed = gzclose_r(file);

    if (rc < 0 || closed == Z_OK)
        return rc;
    return error_set(err, ERR_INVAL, "truncated gzip data");
}

int gz_text_read(const char *path, struct buf *ret, struct error *err)
{
    size_t len = ret->len;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        (void)close(fd);
        return error_set(err, ERR_INVAL, "'%s' is a directory", path);
    }
    gzFile file = gzdopen(fd, "rb");
    if (!file) {
        (void)close(fd);
        return error_set(err, ERR_NOMEM, "read '%s'", path);
    }
    int rc = close_file(file, read_all(file, ret, err), err);
    if (rc < 0) {
        ret->len = len;
        (void)error_wrap(err, "'%s'", path);
    }
    return rc;
}

int gz_text_write(const char *path, const struct buf *text, struct error *err)
{
    gzFile file = gzopen(path, "wbe");

    if (!file)
        return error_sys(err, errno, "create '%s'", path);
    int n = text->len > 0 ? gzwrite(file, text->data, (unsigned)text->len) : 0;
    if (gzclose_w(file) != Z_OK || (size_t)n != text->len)
        return error_set(err, ERR_IO, "write '%s'", path);
    return 0;
}
