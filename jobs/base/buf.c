/* buf.c - grow, append and read files; see buf.h. */
#include "jobs/base/buf.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"

void buf_init(struct buf *b)
{
    *b = (struct buf){.data = NULL};
}

void buf_clear(struct buf *b)
{
    if (!b)
        return;
    int saved = errno;
    free(b->data);
    buf_init(b);
    errno = saved;
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    if (b->data)
        b->data[0] = '\0';
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

char *buf_detach(struct buf *b)
{
    if (!b->data && buf_reserve(b, 0, NULL) < 0)
        return NULL;
    char *p = b->data;
    buf_init(b);
    return p;
}

int buf_grow(struct buf *b, size_t more, struct error *err)
{
    if (more >= SIZE_MAX / 2 - b->len)
        return error_set(err, ERR_NOMEM, "buffer of %zu bytes", more);
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return 0;
    /* Doubling keeps appending linear; 64 bytes hold most short strings. */
    size_t cap = b->cap ? b->cap : 64;
    while (cap < need)
        cap *= 2;
    char *p = realloc(b->data, cap);
    if (!p)
        return error_set(err, ERR_NOMEM, "buffer of %zu bytes", cap);
    if (!b->data)
        p[0] = '\0';
    b->data = p;
    b->cap = cap;
    return 0;
}

int buf_addstr(struct buf *b, const char *s, struct error *err)
{
    return buf_add(b, s, strlen(s), err);
}

int buf_addf(struct buf *b, struct error *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    int rc = -1;
    if (n < 0)
        rc = error_set(err, ERR_INTERNAL, "bad format '%s'", fmt);
    else if (buf_reserve(b, (size_t)n, err) == 0) {
        (void)vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
        rc = 0;
    }
    va_end(again);
    return rc;
}

void buf_drop(struct buf *b, size_t n)
{
    assert(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n + 1);
    b->len -= n;
}

int buf_read_fd(struct buf *b, int fd, const char *name, size_t max,
                struct error *err)
{
    size_t start = b->len;
    int rc = 0;
    for (;;) {
        /* Read one byte beyond the limit, to distinguish a file of exactly max
         * bytes from a longer one. */
        size_t room = max + 1 - (b->len - start);
        size_t want = room < 65536 ? room : 65536;
        if (buf_reserve(b, want, err) < 0) {
            rc = -1;
            break;
        }
        ssize_t n = read(fd, b->data + b->len, want);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            rc = error_sys(err, errno, "read '%s'", name);
            break;
        }
        if (n == 0)
            break;
        b->len += (size_t)n;
        b->data[b->len] = '\0';
        if (b->len - start > max) {
            rc = error_set(err, ERR_LIMIT, "'%s' is longer than %zu bytes",
                           name, max);
            break;
        }
    }
    (void)close(fd);
    if (rc < 0) {
        b->len = start;
        if (b->data)
            b->data[start] = '\0';
    }
    return rc;
}

int buf_read_file(struct buf *b, const char *path, size_t max,
                  struct error *err)
{
    int fd = plain_file_open(path, 0, NULL, err);
    return fd < 0 ? -1 : buf_read_fd(b, fd, path, max, err);
}

int buf_read_operand(struct buf *b, const char *path, size_t max,
                     struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    return buf_read_fd(b, fd, path, max, err);
}

int buf_read_own_file(struct buf *b, const char *path, size_t max,
                      struct error *err)
{
    struct stat st;
    struct error why = ERROR_INIT;
    int fd = plain_file_open(path, 0, &st, &why);
    if (fd < 0 && why.code != ERR_INVAL) {
        if (err != NULL)
            *err = why;
        return -1;
    }
    if (fd >= 0 && st.st_uid == geteuid() &&
        !(st.st_mode & (S_IWGRP | S_IWOTH)))
        return buf_read_fd(b, fd, path, max, err);
    if (fd >= 0)
        (void)close(fd);
    return error_set(err, ERR_DENIED,
                     "'%s' is not a file that only this user can write", path);
}
