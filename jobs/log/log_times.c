/* log_times.c - write and search the index of times; see log_times.h. */
#include "jobs/log/log_times.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"

/* Initial length of a stretch. */
static const double STRETCH_S = 1;
static const char NEW[] = LOGTIMES_NAME ".new";

struct stretch {
    uint64_t end;
    int64_t first_ms, last_ms;
};

struct log_times {
    int dirfd, fd;
    int32_t ranks;
    double stretch_s;
    bool is_open; /* the stretch `now` is open, and not in the file yet */
    struct stretch now;
    size_t n;
    struct stretch at[LOGTIMES_MAX]; /* those in the file */
};

static int64_t ms_of(double s)
{
    return llround(s * 1e3);
}

static int add_line(struct buf *b, const struct stretch *s)
{
    return buf_addf(b, NULL, "%" PRIu64 " %" PRId64 " %" PRId64 "\n", s->end,
                    s->first_ms, s->last_ms);
}

static int put(int fd, const struct buf *b)
{
    ssize_t n;
    do
        n = write(fd, buf_str(b), b->len);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)b->len ? 0 : -1;
}

/* Writes all of it to a new file, which replaces the old one. */
static int rewrite(struct log_times *t)
{
    struct buf b = BUF_INIT;
    int rc = buf_addf(&b, NULL, "mgpu-times 1 %" PRId32 "\n", t->ranks);
    for (size_t i = 0; rc == 0 && i < t->n; i++)
        rc = add_line(&b, &t->at[i]);
    (void)unlinkat(t->dirfd, NEW, 0);
    int fd = openat(t->dirfd, NEW,
                    O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
    if (fd >= 0 && rc == 0)
        rc = put(fd, &b);
    buf_clear(&b);
    if (fd < 0 || rc < 0 ||
        renameat(t->dirfd, NEW, t->dirfd, LOGTIMES_NAME) < 0) {
        int saved = errno;
        if (fd >= 0)
            (void)close(fd);
        (void)unlinkat(t->dirfd, NEW, 0);
        errno = saved;
        return -1;
    }
    if (t->fd >= 0)
        (void)close(t->fd);
    t->fd = fd;
    return 0;
}

int log_times_create(const char *dir, int32_t ranks, struct log_times **ret,
                     struct error *err)
{
    struct log_times *t = calloc(1, sizeof(*t));
    if (!t)
        return error_set(err, ERR_NOMEM, "times of a log");
    t->ranks = ranks;
    t->fd = -1;
    t->stretch_s = STRETCH_S;
    t->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (t->dirfd < 0 || rewrite(t) < 0) {
        (void)error_sys(err, errno, "create '%s/%s'", dir, LOGTIMES_NAME);
        log_times_destroy(t);
        return -1;
    }
    *ret = t;
    return 0;
}

static void halve(struct log_times *t)
{
    for (size_t i = 0; i < t->n / 2; i++)
        t->at[i] = (struct stretch){.end = t->at[2 * i + 1].end,
                                    .first_ms = t->at[2 * i].first_ms,
                                    .last_ms = t->at[2 * i + 1].last_ms};
    t->n /= 2;
    t->stretch_s *= 2;
    (void)rewrite(t);
}

static void end_stretch(struct log_times *t)
{
    struct buf b = BUF_INIT;
    if (!t->is_open)
        return;
    t->is_open = false;
    if (t->n == LOGTIMES_MAX)
        halve(t);
    t->at[t->n++] = t->now;
    /* Bytes that could not be written go with the next line: only the end of a
     * line matters, and the next stretch begins there. */
    if (add_line(&b, &t->now) == 0 && t->fd >= 0)
        (void)put(t->fd, &b);
    buf_clear(&b);
}

void log_times_note(struct log_times *t, uint64_t end, double now_s)
{
    int64_t now_ms = ms_of(now_s);
    if (t->is_open && llabs(now_ms - t->now.first_ms) >= ms_of(t->stretch_s))
        end_stretch(t);
    if (!t->is_open)
        t->now.first_ms = now_ms;
    t->is_open = true;
    t->now.end = end;
    t->now.last_ms = now_ms;
}

double log_times_rest(struct log_times *t, double now_s)
{
    if (!t->is_open)
        return INFINITY;
    double left_s = t->stretch_s - fabs(now_s - (double)t->now.last_ms / 1e3);
    if (left_s > 0)
        return left_s;
    end_stretch(t);
    return INFINITY;
}

void log_times_destroy(struct log_times *t)
{
    if (!t)
        return;
    int saved = errno;
    if (t->fd >= 0) {
        end_stretch(t);
        (void)close(t->fd);
    }
    if (t->dirfd >= 0)
        (void)close(t->dirfd);
    free(t);
    errno = saved;
}

/* ---- reading --------------------------------------------------------------
 * The job can write to the directory: the file is untrusted input. */

enum { DIGITS_MAX = 18 }; /* so that it fits */

static bool number(const char **p, const char *end, int64_t *ret)
{
    int64_t v = 0;
    const char *from = *p;
    bool is_minus = from < end && *from == '-';
    const char *digits = from + is_minus, *at = digits;
    for (; at < end && *at >= '0' && *at <= '9' && at - digits < DIGITS_MAX;
         at++)
        v = 10 * v + (*at - '0');
    if (at == digits || at == end || (*at != ' ' && *at != '\n'))
        return false;
    *ret = is_minus ? -v : v;
    *p = at + 1;
    return true;
}

int log_times_find(const char *text, size_t n, double since_s,
                   int32_t *ret_ranks, uint64_t *ret_offset, struct error *err)
{
    static const char head[] = "mgpu-times 1 ";
    const char *p = text, *end = text + n;
    int64_t ranks, to, first, last;
    uint64_t from = 0;
    if (n < sizeof(head) || memcmp(text, head, sizeof(head) - 1) != 0)
        return error_set(err, ERR_INVAL, "'%s' is not mgpu's", LOGTIMES_NAME);
    p += sizeof(head) - 1;
    if (!number(&p, end, &ranks) || p[-1] != '\n' || ranks < 0 ||
        ranks > INT32_MAX)
        return error_set(err, ERR_INVAL, "'%s': its first line", LOGTIMES_NAME);
    /* An incomplete last line does not count. */
    while (number(&p, end, &to) && p[-1] == ' ' && number(&p, end, &first) &&
           p[-1] == ' ' && number(&p, end, &last) && p[-1] == '\n' &&
           to >= (int64_t)from && (double)last < since_s * 1e3)
        from = (uint64_t)to;
    *ret_ranks = (int32_t)ranks;
    *ret_offset = from;
    return 0;
}
