/* gz_stream.c - see gz_stream.h. */
#include "worker/data/rows/gz_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "jobs/base/plain_file.h"

enum { WINDOW = 256 * 1024 };

static gzFile open_file(const char *path, struct error *err)
{
    int fd = plain_file_open(path, 0, NULL, err);
    gzFile f = fd >= 0 ? gzdopen(fd, "rb") : NULL;
    if (fd >= 0 && f == NULL) {
        (void)error_set(err, ERR_NOMEM, "%s", path);
        (void)close(fd);
    }
    return f;
}

/* Tells the end of the file, which returns 0, from an error. */
static int read_ended(const struct gz_stream *s, int got, struct error *err)
{
    int code = Z_OK;
    const char *text = gzerror(s->file, &code);
    if (got == 0 && code != Z_BUF_ERROR)
        return 0;
    if (code == Z_ERRNO)
        return error_sys(err, errno, "%s", s->path);
    if (code == Z_BUF_ERROR)
        return error_set(err, ERR_INVAL,
                         "%s: line %lld: the gzip data end too early", s->path,
                         (long long)s->line);
    return error_set(err, ERR_INVAL, "%s: line %lld: damaged gzip data: %s",
                     s->path, (long long)s->line, text);
}

int gz_stream_fill(struct gz_stream *s, struct error *err)
{
    if (s->at < s->len)
        return 1;
    s->at = s->len = 0;
    int got = gzread(s->file, s->data, WINDOW);
    if (got <= 0)
        return read_ended(s, got, err);
    s->len = (size_t)got;
    const int64_t offset = gzoffset(s->file);
    if (s->read != NULL)
        *s->read += offset - s->offset;
    s->offset = offset;
    return 1;
}

int gz_stream_open(struct gz_stream *s, const char *path, struct error *err)
{
    struct gz_stream r = {.path = path, .line = 1};
    r.file = open_file(path, err);
    if (r.file == NULL)
        return -1;
    r.data = malloc(WINDOW);
    int rc = r.data != NULL ? gz_stream_fill(&r, err)
                            : error_set(err, ERR_NOMEM, "%s", path);
    if (rc < 0) {
        gz_stream_close(&r);
        return -1;
    }
    if (r.len >= 3 && memcmp(r.data, "\xef\xbb\xbf", 3) == 0)
        r.at = 3;
    *s = r;
    return 0;
}

void gz_stream_close(struct gz_stream *s)
{
    if (s->file != NULL)
        (void)gzclose_r(s->file); /* only read; reads reported what failed */
    free(s->data);
    *s = (struct gz_stream){.path = NULL};
}

void gz_stream_take(struct gz_stream *s, size_t to)
{
    for (; s->at < to; s->at++)
        s->line += s->data[s->at] == '\n';
}

int gz_stream_skip_blank(struct gz_stream *s, struct error *err)
{
    int rc;
    while ((rc = gz_stream_fill(s, err)) > 0) {
        size_t to = s->at;
        while (to < s->len && strchr(" \t\r\n", s->data[to]) != NULL &&
               s->data[to] != '\0')
            to++;
        gz_stream_take(s, to);
        if (to < s->len)
            return 1;
    }
    return rc;
}
