/* buf.h - a growable byte buffer; the only realloc in the tree.
 *
 * A buf is a value: zero-initialise it or buf_init() it, and end it with
 * buf_clear(). data is always NUL-terminated one past len (the NUL is not
 * counted), so a buf of text is a C string; data is "" before the first
 * byte. A failed call returns -1 with ERR_NOMEM and changes nothing. */
#ifndef MGPU_BASE_BUF_H
#define MGPU_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "jobs/base/error.h"

#ifdef __cplusplus /* for tokenizer_spm.cpp */
extern "C" {
#endif

struct buf {
    char *data; /* NULL only in a zeroed buf; use buf_str() to read */
    size_t len, cap;
};

#define BUF_INIT     \
    {                \
        .data = NULL \
    }

void buf_init(struct buf *b);
void buf_clear(struct buf *b);            /* frees; b is then as after
                                           * buf_init */
void buf_reset(struct buf *b);            /* len = 0, keeps the memory */
const char *buf_str(const struct buf *b); /* never NULL; borrowed */

/* Transfers ownership of the bytes: the caller frees with free(). NULL if
 * memory is short; b is then unchanged. */
char *buf_detach(struct buf *b);

int buf_grow(struct buf *b, size_t more, struct error *err) MUST_CHECK;
/* Inline, because there is mostly space left, and a list of jobs appends ten
 * million times. */
static inline int MUST_CHECK buf_reserve(struct buf *b, size_t more,
                                         struct error *err)
{
    return more < b->cap - b->len ? 0 : buf_grow(b, more, err);
}
static inline int MUST_CHECK buf_add(struct buf *b, const void *p, size_t n,
                                     struct error *err)
{
    if (buf_reserve(b, n, err) < 0)
        return -1;
    if (n > 0)
        memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return 0;
}
int buf_addstr(struct buf *b, const char *s, struct error *err) MUST_CHECK;
int buf_addf(struct buf *b, struct error *err, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))) MUST_CHECK;
void buf_drop(struct buf *b, size_t n); /* removes the first n bytes; n <=
                                         * len */

/* Appends the whole file, at most max bytes.
 * err ERR_LIMIT it is longer; ERR_INVAL not a regular file (plain_file.h); else
 *     as open(2) and read(2) */
int buf_read_file(struct buf *b, const char *path, size_t max,
                  struct error *err) MUST_CHECK;
/* The same of an open file, from where it is to its end.
 * own  fd  is closed
 * in   name  for messages */
int buf_read_fd(struct buf *b, int fd, const char *name, size_t max,
                struct error *err) MUST_CHECK;
/* The same for an operand of a command, which may be a pipe or a terminal. */
int buf_read_operand(struct buf *b, const char *path, size_t max,
                     struct error *err) MUST_CHECK;
/* The same for files with instructions to this process: its own user must own
 * the file, and no other user may write to it.
 * err ERR_DENIED otherwise */
int buf_read_own_file(struct buf *b, const char *path, size_t max,
                      struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
