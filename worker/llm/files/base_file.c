/* base_file.c - see base_file.h. */
#include "worker/llm/files/base_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/plain_file.h"

/* Path of an open file, which no later change of a link alters. */
static int where(int fd, char ret[PATH_MAX], struct error *err)
{
    char link[40];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, ret, PATH_MAX - 1);
    if (n < 0)
        return error_sys(err, errno, "read the link '%s'", link);
    ret[n] = '\0';
    return 0;
}

static bool is_below(const char *path, const char *dir, size_t dir_len)
{
    return strncmp(path, dir, dir_len) == 0 && path[dir_len] == '/';
}

/* For ".../snapshots/REVISION" the length of "...", which has "blobs"; else
 * 0. */
static size_t cut_to_cache(const char *dir)
{
    static const char parent[] = "/snapshots";
    const char *end = strrchr(dir, '/');
    const size_t n = sizeof(parent) - 1;
    if (end == NULL || (size_t)(end - dir) <= n ||
        strncmp(end - n, parent, n) != 0)
        return 0;
    return (size_t)(end - dir) - n;
}

/* in   path  where the file is
 *      dir   where the directory is */
static bool is_inside(const char *path, const char *dir)
{
    static const char blobs[] = "/blobs";
    const size_t cache = cut_to_cache(dir);
    if (is_below(path, dir, strlen(dir)))
        return true;
    return cache > 0 && strncmp(path, dir, cache) == 0 &&
           is_below(path + cache, blobs, sizeof(blobs) - 1);
}

static bool is_ours(const struct stat *st)
{
    return st->st_uid == geteuid() || st->st_uid == 0;
}

/* All links of the name, which may have directories. */
static bool links_are_ours(int dir, const char *name)
{
    char part[PATH_MAX];
    struct stat st;
    for (const char *p = name; p != NULL; p = strchr(p + 1, '/')) {
        const char *end = strchr(p + 1, '/');
        const size_t n = end != NULL ? (size_t)(end - name) : strlen(name);
        (void)snprintf(part, sizeof(part), "%.*s", (int)n, name);
        if (fstatat(dir, part, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            (S_ISLNK(st.st_mode) && !is_ours(&st)))
            return false;
    }
    return true;
}

static int check_place(int dir_fd, const char *dir, const char *name, int fd,
                       const struct stat *st, struct error *err)
{
    char at[PATH_MAX], base[PATH_MAX];
    if (where(fd, at, err) < 0 || where(dir_fd, base, err) < 0)
        return -1;
    if (is_inside(at, base) || (is_ours(st) && links_are_ours(dir_fd, name)))
        return 0;
    return error_set(err, ERR_DENIED,
                     "'%s/%s' is a link to '%.80s', which is not in that "
                     "directory: copy the file there if you want it",
                     dir, name, at);
}

int base_file_read(const char *dir, const char *name, size_t max,
                   struct buf *ret, struct error *err)
{
    struct stat st;
    int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir_fd < 0)
        return error_sys(err, errno, "open '%s'", dir);
    int fd = plain_file_open_at(dir_fd, name, 0, &st, err);
    int rc = fd < 0 ? -1 : check_place(dir_fd, dir, name, fd, &st, err);
    (void)close(dir_fd);
    if (rc == 0)
        return buf_read_fd(ret, fd, name, max, err);
    if (fd >= 0)
        (void)close(fd);
    return -1;
}
