/* bounded_log.c - write and read the parts of a bounded log; see
 * bounded_log.h. */
#include "jobs/log/bounded_log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PART_NAME_CAP = 32, N_PIECES = 2 };

struct bounded_log {
    int dirfd;
    int fd; /* the part being written; -1 after a failure */
    uint64_t head_bytes, piece_bytes;
    uint64_t at;               /* the next byte's position in the stream */
    uint64_t end;              /* position at which the open part is full */
    uint64_t pieces[N_PIECES]; /* offsets of the pieces kept, oldest first */
    size_t n_pieces;
};

static void part_name(uint64_t offset, char ret[PART_NAME_CAP])
{
    if (offset == 0)
        (void)snprintf(ret, PART_NAME_CAP, "log");
    else
        (void)snprintf(ret, PART_NAME_CAP, "log.%012" PRIu64, offset);
}

/* Whether a file is a part, and its offset. */
static bool part_offset(const char *name, uint64_t *ret)
{
    if (strcmp(name, "log") == 0) {
        *ret = 0;
        return true;
    }
    if (strncmp(name, "log.", 4) != 0 || strlen(name) < 4 + 12 ||
        strspn(name + 4, "0123456789") != strlen(name + 4))
        return false;
    *ret = strtoull(name + 4, NULL, 10);
    return *ret > 0;
}

static int each_part(const char *dir,
                     void (*fn)(void *arg, int dirfd, const char *name,
                                uint64_t offset),
                     void *arg, struct error *err)
{
    DIR *d = opendir(dir);
    if (!d)
        return error_sys(err, errno, "open '%s'", dir);
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        uint64_t offset;
        if (part_offset(e->d_name, &offset))
            fn(arg, dirfd(d), e->d_name, offset);
    }
    (void)closedir(d);
    return 0;
}

/* ---- writing --------------------------------------------------------------
 */
static void remove_part(void *arg, int dirfd, const char *name, uint64_t offset)
{
    (void)arg;
    (void)offset;
    (void)unlinkat(dirfd, name, 0);
}

static int open_part(struct bounded_log *l, struct error *err)
{
    char name[PART_NAME_CAP];
    part_name(l->at, name);
    l->fd = openat(l->dirfd, name,
                   O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW |
                       O_NONBLOCK,
                   0600);
    if (l->fd < 0)
        return error_sys(err, errno, "create '%s'", name);
    l->end = l->at < l->head_bytes ? l->head_bytes : l->at + l->piece_bytes;
    return 0;
}

/* The open part is full: open a new piece, delete the oldest. */
static int next_part(struct bounded_log *l, struct error *err)
{
    if (l->fd >= 0)
        (void)close(l->fd);
    l->fd = -1;
    if (l->n_pieces == N_PIECES) {
        char name[PART_NAME_CAP];
        part_name(l->pieces[0], name);
        (void)unlinkat(l->dirfd, name, 0);
        memmove(l->pieces, l->pieces + 1,
                (N_PIECES - 1) * sizeof(l->pieces[0]));
        l->n_pieces--;
    }
    if (open_part(l, err) < 0)
        return -1;
    l->pieces[l->n_pieces++] = l->at;
    return 0;
}

int bounded_log_create(const char *dir, int64_t max_bytes,
                       struct bounded_log **ret, struct error *err)
{
    uint64_t max = max_bytes < JOBLOG_MIN_BYTES ? (uint64_t)JOBLOG_MIN_BYTES
                                                : (uint64_t)max_bytes;
    if (each_part(dir, remove_part, NULL, err) < 0)
        return -1;
    struct bounded_log *l = calloc(1, sizeof(*l));
    if (!l)
        return error_set(err, ERR_NOMEM, "log");
    l->fd = -1;
    l->head_bytes = max / 2;
    l->piece_bytes = max / 4;
    l->dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->dirfd < 0)
        (void)error_sys(err, errno, "open '%s'", dir);
    if (l->dirfd < 0 || open_part(l, err) < 0) {
        bounded_log_destroy(l);
        return -1;
    }
    *ret = l;
    return 0;
}

int bounded_log_write(struct bounded_log *l, const void *p, size_t n,
                      struct error *err)
{
    const char *from = p;
    while (n > 0) {
        /* Without an open part (after a failure) this opens a new piece, and
         * the gap before it records the missing bytes. */
        if ((l->fd < 0 || l->at >= l->end) && next_part(l, err) < 0) {
            l->at += n;
            return -1;
        }
        size_t room = (size_t)(l->end - l->at);
        ssize_t done = write(l->fd, from, n < room ? n : room);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            (void)error_sys(err, errno, "write the log");
            (void)close(l->fd);
            l->fd = -1;
            l->at += n;
            return -1;
        }
        from += done;
        n -= (size_t)done;
        l->at += (uint64_t)done;
    }
    return 0;
}

void bounded_log_destroy(struct bounded_log *l)
{
    if (!l)
        return;
    int saved = errno;
    if (l->fd >= 0)
        (void)close(l->fd);
    if (l->dirfd >= 0)
        (void)close(l->dirfd);
    free(l);
    errno = saved;
}

/* ---- reading --------------------------------------------------------------
 */
struct search {
    uint64_t want;
    uint64_t at, after; /* parts: the last one that begins at or before
                           want, and the first one after it */
    bool has_at, has_after;
};

static void look(void *arg, int dirfd, const char *name, uint64_t offset)
{
    (void)dirfd;
    (void)name;
    struct search *s = arg;
    if (offset <= s->want) {
        if (!s->has_at || offset > s->at)
            s->at = offset;
        s->has_at = true;
    } else {
        if (!s->has_after || offset < s->after)
            s->after = offset;
        s->has_after = true;
    }
}

/* Reads bytes of one part from stream offset `from` on; returns how many, 0
 * also if the part has been deleted meanwhile. The job can write to the
 * directory: do not block on a FIFO in a part's place. */
static ssize_t read_part(const char *dir, uint64_t part, uint64_t from, void *p,
                         size_t cap, struct error *err)
{
    char name[PART_NAME_CAP];
    part_name(part, name);
    int dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return error_sys(err, errno, "open '%s'", dir);
    int fd =
        openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int saved = errno;
    (void)close(dirfd);
    if (fd < 0)
        return saved == ENOENT ? 0 : error_sys(err, saved, "open '%s'", name);
    ssize_t n;
    do
        n = pread(fd, p, cap, (off_t)(from - part));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        (void)error_sys(err, errno, "read '%s'", name);
    (void)close(fd);
    return n;
}

int bounded_log_read(const char *dir, uint64_t *io_offset, void *p, size_t cap,
                     size_t *ret_n, uint64_t *ret_dropped, struct error *err)
{
    struct search s = {.want = *io_offset};
    if (each_part(dir, look, &s, err) < 0)
        return -1;
    if (!s.has_at && !s.has_after)
        return error_set(err, ERR_NOTFOUND, "no log in '%s'", dir);
    uint64_t from = s.want;
    ssize_t n = 0;
    if (s.has_at)
        n = read_part(dir, s.at, from, p, cap, err);
    /* At the end of a part continue with the next one, perhaps after a gap. */
    if (n == 0 && s.has_after) {
        from = s.after;
        n = read_part(dir, s.after, from, p, cap, err);
    }
    if (n < 0)
        return -1;
    *ret_n = (size_t)n;
    *ret_dropped = n > 0 ? from - s.want : 0;
    if (n > 0)
        *io_offset = from + (uint64_t)n;
    return 0;
}

size_t bounded_log_marker(uint64_t dropped, char ret[JOBLOG_MARKER_CAP])
{
    int n =
        snprintf(ret, JOBLOG_MARKER_CAP,
                 "\n[mgpu: %" PRIu64 " bytes of output dropped]\n", dropped);
    return n > 0 ? (size_t)n : 0;
}
