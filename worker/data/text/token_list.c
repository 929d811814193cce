/* token_list.c - see token_list.h. */
#include "worker/data/text/token_list.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/checkpoint/crc64.h"

enum { PIECE = 1 << 20 }; /* bytes that are copied at once */

void token_list_clear(struct token_list *l)
{
    buf_clear(&l->memory);
    if (l->has_file)
        (void)close(l->fd); /* it is not read again */
    *l = (struct token_list){.has_file = false};
}

size_t token_list_values(const struct token_list *l)
{
    return (l->bytes + l->memory.len) / sizeof(int32_t);
}

const int32_t *token_list_data(const struct token_list *l)
{
    return (const int32_t *)(const void *)l->memory.data;
}

void token_list_use_file(struct token_list *l, int fd, int64_t base)
{
    l->has_file = true;
    l->fd = fd;
    l->base = base;
    l->bytes = 0;
    l->sum = 0;
}

int token_list_write_all(int fd, const void *p, size_t n, int64_t at)
{
    const char *from = p;
    while (n > 0) {
        const ssize_t got =
            at < 0 ? write(fd, from, n) : pwrite(fd, from, n, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        from += got;
        n -= (size_t)got;
        at += at < 0 ? 0 : got;
    }
    return 0;
}

int token_list_flush(struct token_list *l, struct error *err)
{
    const int64_t end = l->base + (int64_t)l->bytes;
    if (token_list_write_all(l->fd, l->memory.data, l->memory.len, end) < 0)
        return error_sys(err, errno, "write %zu bytes of tokens",
                         l->memory.len);
    l->sum = crc64(l->sum, l->memory.data, l->memory.len);
    l->bytes += l->memory.len;
    buf_reset(&l->memory);
    return 0;
}

/* Bytes [at, at + n) of the list, which are in the file. */
static int read_back(const struct token_list *l, size_t at, char *to, size_t n,
                     struct error *err)
{
    while (n > 0) {
        const ssize_t got = pread(l->fd, to, n, l->base + (int64_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_sys(err, got < 0 ? errno : EIO,
                             "read %zu bytes of tokens", n);
        at += (size_t)got;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

int token_list_recall(struct token_list *l, struct error *err)
{
    struct buf all = BUF_INIT;
    if (!l->has_file)
        return 0;
    if (buf_reserve(&all, l->bytes + l->memory.len, err) < 0)
        return -1;
    all.len = l->bytes;
    if (read_back(l, 0, all.data, l->bytes, err) < 0 ||
        buf_add(&all, l->memory.data, l->memory.len, err) < 0) {
        buf_clear(&all);
        return -1;
    }
    token_list_clear(l);
    l->memory = all;
    return 0;
}

static int copy_pieces(const struct token_list *l, int fd, char *piece,
                       uint64_t *sum, struct error *err)
{
    for (size_t at = 0; at < l->bytes;) {
        const size_t n = l->bytes - at < PIECE ? l->bytes - at : PIECE;
        if (read_back(l, at, piece, n, err) < 0)
            return -1;
        if (token_list_write_all(fd, piece, n, -1) < 0)
            return error_sys(err, errno, "write %zu bytes of tokens",
                             l->bytes - at);
        *sum = crc64(*sum, piece, n);
        at += n;
    }
    return 0;
}

int token_list_write(const struct token_list *l, int fd, uint64_t *ret_sum,
                     struct error *err)
{
    uint64_t sum = 0;
    if (l->bytes > 0) {
        char *piece = malloc(PIECE);
        if (piece == NULL)
            return error_set(err, ERR_NOMEM, "a list of tokens");
        int rc = copy_pieces(l, fd, piece, &sum, err);
        free(piece);
        if (rc < 0)
            return -1;
    }
    if (token_list_write_all(fd, l->memory.data, l->memory.len, -1) < 0)
        return error_sys(err, errno, "write %zu bytes of tokens",
                         l->memory.len);
    *ret_sum = crc64(sum, l->memory.data, l->memory.len);
    return 0;
}
