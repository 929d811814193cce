/* spool.c - see spool.h. */
#include "worker/report/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A daemon that loses its last second asks again for what it had
 * acknowledged: keep far more than a second of rows, and give back in
 * steps that are worth a system call. */
enum { KEEP_BYTES = 16 << 20, STEP_BYTES = 1 << 20 };

int spool_open(struct spool *ret, const char *dir, int32_t rank,
               int64_t max_bytes, struct error *err)
{
    struct buf path = BUF_INIT;
    if (buf_addf(&path, err, "%s/spool.%d", dir, rank) < 0)
        return -1;
    int fd = open(buf_str(&path),
                  O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0) {
        (void)error_sys(err, errno, "open '%s'", buf_str(&path));
        buf_clear(&path);
        return -1;
    }
    buf_clear(&path);
    *ret = (struct spool){.fd = fd, .max_bytes = max_bytes};
    buf_init(&ret->line);
    return 0;
}

void spool_close(struct spool *s)
{
    if (s->fd >= 0)
        (void)close(s->fd);
    s->fd = -1;
    buf_clear(&s->line);
}

/* All of it or nothing: half a line would spoil the next one too. */
static int append(struct spool *s, const char *p, size_t n)
{
    int64_t end = atomic_load(&s->end);
    size_t done = 0;
    while (done < n) {
        ssize_t k = write(s->fd, p + done, n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            if (done > 0 && ftruncate(s->fd, end) < 0)
                s->max_bytes = 0; /* spoilt: nothing more is added */
            return -1;
        }
        done += (size_t)k;
    }
    atomic_store(&s->end, end + (int64_t)n);
    return 0;
}

void spool_add(struct spool *s, const struct metric_row *row)
{
    buf_reset(&s->line);
    if (metric_row_encode(row, &s->line, NULL) < 0) {
        s->dropped++;
        return;
    }
    int64_t n = (int64_t)s->line.len;
    int64_t waiting = atomic_load(&s->end) - atomic_load(&s->acked);
    if (waiting + n > s->max_bytes ||
        append(s, buf_str(&s->line), s->line.len) < 0)
        s->dropped++;
    else
        s->rows++;
}

int spool_read(struct spool *s, size_t max, struct buf *out,
               int64_t *ret_offset, struct error *err)
{
    int64_t from = atomic_load(&s->acked);
    int64_t left = atomic_load(&s->end) - from;
    size_t n = left < (int64_t)max ? (size_t)left : max;
    buf_reset(out);
    if (buf_reserve(out, n + 1, err) < 0)
        return -1;
    size_t got = 0;
    while (got < n) {
        ssize_t k = pread(s->fd, out->data + got, n - got,
                          (off_t)(from + (int64_t)got));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_sys(err, errno, "read the spool");
        if (k == 0)
            return error_set(err, ERR_IO, "the spool ends at byte %lld",
                             (long long)(from + (int64_t)got));
        got += (size_t)k;
    }
    const char *last = got > 0 ? memrchr(out->data, '\n', got) : NULL;
    if (got > 0 && last == NULL)
        return error_set(err, ERR_LIMIT, "a row is longer than %zu bytes", max);
    out->len = last != NULL ? (size_t)(last - out->data) + 1 : 0;
    out->data[out->len] = '\0';
    *ret_offset = from;
    return 0;
}

static void give_back(struct spool *s, int64_t acked)
{
    int64_t until = acked - KEEP_BYTES;
    if (until - s->hole < STEP_BYTES)
        return;
    until -= until % STEP_BYTES;
    /* A file system without holes keeps the bytes: no harm. */
    (void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)s->hole, (off_t)(until - s->hole));
    s->hole = until;
}

int spool_ack(struct spool *s, int64_t acked, struct error *err)
{
    if (acked < s->hole || acked > atomic_load(&s->end))
        return error_set(
            err, ERR_INVAL,
            "the daemon acknowledged byte %lld, expected %lld..%lld",
            (long long)acked, (long long)s->hole,
            (long long)atomic_load(&s->end));
    atomic_store(&s->acked, acked);
    give_back(s, acked);
    return 0;
}
