/* gz_stream.h - a file as a stream of bytes: as it is or packed by gzip, and
 * without the mark that some programs put in front of UTF-8. */
#ifndef MGPU_WORKER_DATA_ROWS_GZ_STREAM_H
#define MGPU_WORKER_DATA_ROWS_GZ_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct gz_stream {
    const char *path; /* borrowed */
    void *file;       /* of zlib */
    char *data;       /* what was read; at..len is not taken yet */
    size_t at, len;
    int64_t line; /* of data[at], from 1 on */
    /* Grows by the bytes of the file that are read; NULL: not counted. */
    int64_t *read;
    int64_t offset; /* in the file */
};

/* in   path  a regular file; outlives the stream
 * err  ERR_NOTFOUND, ERR_INVAL no regular file, ERR_IO, ERR_NOMEM */
int gz_stream_open(struct gz_stream *s, const char *path,
                   struct error *err) MUST_CHECK;
void gz_stream_close(struct gz_stream *s); /* zeroed is fine */

/* 1: there are bytes at data + at; 0: the file ends here.
 * err  -1: ERR_IO; ERR_INVAL damaged gzip data, or data that end too early */
int gz_stream_fill(struct gz_stream *s, struct error *err) MUST_CHECK;

/* The bytes before `to` are taken; at <= to <= len. */
void gz_stream_take(struct gz_stream *s, size_t to);

/* Takes what is white space in JSON. As gz_stream_fill(). */
int gz_stream_skip_blank(struct gz_stream *s, struct error *err) MUST_CHECK;

#endif
