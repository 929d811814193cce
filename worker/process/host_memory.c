/* host_memory.c - see host_memory.h.
 *
 * The kernel kills a process of a control group that goes over its limit, so
 * the smallest limit on the way up counts, less what is used under it. Pages
 * of files are given back when memory is short: they count as free.
 */
#include "worker/process/host_memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"

enum { FILE_MAX_BYTES = 1 << 20 };

/* The names of version 2 and 1 of the kernel's control groups. */
static const struct names {
    const char *mount, *limit, *used, *inactive, *active;
} versions[] = {
    {"", "memory.max", "memory.current", "\ninactive_file ", "\nactive_file "},
    {"/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "\ntotal_inactive_file ", "\ntotal_active_file "},
};

/* "<dir>/<name>" with a newline before it, so that each line has one; NULL
 * without the file. */
static const char *text_of(struct buf *b, const char *dir, const char *name)
{
    struct buf path = BUF_INIT;
    buf_reset(b);
    int rc = buf_addf(&path, NULL, "%s/%s", dir, name);
    rc = rc < 0 ? rc : buf_addstr(b, "\n", NULL);
    rc = rc < 0 ? rc : buf_read_file(b, buf_str(&path), FILE_MAX_BYTES, NULL);
    buf_clear(&path);
    return rc < 0 ? NULL : buf_str(b);
}

/* The number behind `what`; -1: there is none ("max"). */
static int64_t number(const char *text, const char *what)
{
    const char *at = text != NULL ? strstr(text, what) : NULL;
    if (at == NULL)
        return -1;
    at += strlen(what);
    at += strspn(at, " ");
    return *at >= '0' && *at <= '9' ? strtoll(at, NULL, 10) : -1;
}

/* Bytes that the limit of a group leaves; -1: it has none. */
static int64_t left_in(const char *dir, const struct names *v)
{
    struct buf b = BUF_INIT;
    int64_t limit = number(text_of(&b, dir, v->limit), "\n");
    int64_t used = number(text_of(&b, dir, v->used), "\n");
    const char *stat = text_of(&b, dir, "memory.stat");
    int64_t inactive = number(stat, v->inactive);
    int64_t active = number(stat, v->active);
    buf_clear(&b);
    if (limit < 0 || used < 0)
        return -1;
    used -= (inactive > 0 ? inactive : 0) + (active > 0 ? active : 0);
    int64_t left = limit - (used > 0 ? used : 0);
    return left > 0 ? left : 0;
}

/* The smallest of a group and those above it; -1: none has a limit. */
static int64_t left_under(const char *root, const char *path, size_t len,
                          const struct names *v)
{
    struct buf dir = BUF_INIT;
    int64_t least = -1;
    for (;;) {
        buf_reset(&dir);
        if (buf_addf(&dir, NULL, "%s/sys/fs/cgroup%s%.*s", root, v->mount,
                     (int)len, path) < 0)
            break;
        int64_t left = left_in(buf_str(&dir), v);
        if (left >= 0 && (least < 0 || left < least))
            least = left;
        if (len == 0)
            break;
        while (len > 0 && path[--len] != '/')
            ;
    }
    buf_clear(&dir);
    return least;
}

/* "0::/path" and "4:cpu,memory:/path". */
static int64_t left_by_groups(const char *root)
{
    struct buf b = BUF_INIT, proc = BUF_INIT;
    int64_t least = -1;
    int rc = buf_addf(&proc, NULL, "%s/proc/self", root);
    const char *line = rc < 0 ? NULL : text_of(&b, buf_str(&proc), "cgroup");
    while (line != NULL && *++line != '\0') {
        size_t len = strcspn(line, "\n");
        const char *kind = memchr(line, ':', len);
        const char *path =
            kind ? memchr(kind + 1, ':', len - (size_t)(kind + 1 - line))
                 : NULL;
        int64_t left = -1;
        if (path != NULL && path == kind + 1)
            left = left_under(root, path + 1, len - (size_t)(path + 1 - line),
                              &versions[0]);
        else if (path != NULL &&
                 memmem(kind, (size_t)(path - kind), "memory", 6) != NULL)
            left = left_under(root, path + 1, len - (size_t)(path + 1 - line),
                              &versions[1]);
        if (left >= 0 && (least < 0 || left < least))
            least = left;
        line = strchr(line, '\n');
    }
    buf_clear(&b);
    buf_clear(&proc);
    return least;
}

struct memory_left memory_left(const char *root)
{
    struct buf b = BUF_INIT, proc = BUF_INIT;
    int64_t kib = -1, share = left_by_groups(root);
    if (buf_addf(&proc, NULL, "%s/proc", root) == 0)
        kib = number(text_of(&b, buf_str(&proc), "meminfo"), "\nMemAvailable:");
    buf_clear(&b);
    buf_clear(&proc);
    struct memory_left left = {.bytes = kib > 0 ? kib * 1024 : -1};
    if (share >= 0 && (left.bytes < 0 || share < left.bytes))
        left = (struct memory_left){.bytes = share, .is_share = true};
    return left;
}

static int64_t kib_of(const char *text, const char *what)
{
    int64_t kib = number(text, what);
    return kib < 0 ? -1 : kib * 1024;
}

struct memory_used memory_used(const char *root)
{
    struct buf b = BUF_INIT, proc = BUF_INIT;
    struct memory_used used = {.bytes = -1, .highest = -1};
    if (buf_addf(&proc, NULL, "%s/proc/self", root) == 0) {
        const char *text = text_of(&b, buf_str(&proc), "status");
        used.bytes = kib_of(text, "\nVmRSS:\t");
        used.highest = kib_of(text, "\nVmHWM:\t");
    }
    buf_clear(&b);
    buf_clear(&proc);
    return used;
}
