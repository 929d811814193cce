/* file_atomic.c - see file_atomic.h. Messages name the file, and not its
 * temporary. */
#include "jobs/base/file_atomic.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int path_of(char ret[PATH_MAX], const char *dir, const char *name,
                   const char *end, struct error *err)
{
    int n = dir != NULL ? snprintf(ret, PATH_MAX, "%s/%s%s", dir, name, end)
                        : snprintf(ret, PATH_MAX, "%s%s", name, end);
    return n > 0 && n < PATH_MAX ? 0
                                 : error_set(err, ERR_INVAL, "'%s' is too long",
                                             dir != NULL ? dir : name);
}

static int create(const char *tmp, const char *path, unsigned flags,
                  struct error *err)
{
    int fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                  flags & FILE_PUBLIC ? 0666 : 0600);
    return fd < 0 ? error_sys(err, errno, "create '%s'", path) : fd;
}

/* A file that a killed process left may have any mode and owner: start
 * afresh. */
static int create_anew(const char *tmp, const char *path, unsigned flags,
                       struct error *err)
{
    (void)unlink(tmp);
    return create(tmp, path, flags, err);
}

static int write_all(int fd, const char *path, const char *p, size_t n,
                     struct error *err)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return error_sys(err, k < 0 ? errno : ENOSPC, "write '%s'", path);
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

static int sync_fd(int fd, const char *path, struct error *err)
{
    int rc;
    do
        rc = fsync(fd);
    while (rc < 0 && errno == EINTR);
    return rc < 0 ? error_sys(err, errno, "sync '%s'", path) : 0;
}

/* Syncs it if rc is 0, and closes it in any case. */
static int finish(int fd, const char *path, unsigned flags, int rc,
                  struct error *err)
{
    if (rc == 0 && !(flags & FILE_CACHED))
        rc = sync_fd(fd, path, err);
    /* After EINTR it is closed, and what was synced is safe. */
    if (close(fd) < 0 && errno != EINTR && rc == 0)
        rc = error_sys(err, errno, "close '%s'", path);
    return rc;
}

static int give_name(const char *tmp, const char *path, struct error *err)
{
    return rename(tmp, path) < 0 ? error_sys(err, errno, "rename to '%s'", path)
                                 : 0;
}

/* ---- a whole file ---------------------------------------------------------
 */

int file_atomic_put(const char *dir, const char *name, const void *p, size_t n,
                    unsigned flags, struct error *err)
{
    char path[PATH_MAX], tmp[PATH_MAX];
    if (path_of(path, dir, name, "", err) < 0 ||
        path_of(tmp, dir, name, ".tmp", err) < 0)
        return -1;
    int fd = create_anew(tmp, path, flags, err);
    if (fd < 0)
        return -1;
    int rc = finish(fd, path, flags, write_all(fd, path, p, n, err), err);
    rc = rc < 0 ? rc : give_name(tmp, path, err);
    if (rc < 0)
        (void)unlink(tmp);
    return rc < 0 || (flags & (FILE_CACHED | FILE_NAME_CACHED))
               ? rc
               : file_atomic_sync_parent(path, err);
}

int file_atomic_put_over(const char *dir, const char *name, const char *room,
                         const void *p, size_t n, struct error *err)
{
    char path[PATH_MAX], tmp[PATH_MAX];
    if (path_of(path, dir, name, "", err) < 0 ||
        path_of(tmp, dir, room, "", err) < 0)
        return -1;
    int fd = open(tmp, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        fd = create_anew(tmp, path, 0, err);
    if (fd < 0)
        return -1;
    int rc = write_all(fd, path, p, n, err);
    if (rc == 0 && ftruncate(fd, (off_t)n) < 0)
        rc = error_sys(err, errno, "truncate '%s'", path);
    rc = finish(fd, path, 0, rc, err);
    rc = rc < 0 ? rc : give_name(tmp, path, err);
    if (rc < 0)
        (void)unlink(tmp);
    return rc;
}

int file_atomic_create(const char *dir, const char *name, const void *p,
                       size_t n, struct error *err)
{
    char path[PATH_MAX];
    int fd =
        path_of(path, dir, name, "", err) < 0 ? -1 : create(path, path, 0, err);
    if (fd < 0)
        return -1;
    int rc = finish(fd, path, 0, write_all(fd, path, p, n, err), err);
    if (rc < 0)
        (void)unlink(path);
    return rc;
}

int file_atomic_sync(const char *path, struct error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    int rc = sync_fd(fd, path, err);
    (void)close(fd);
    return rc;
}

int file_atomic_sync_parent(const char *path, struct error *err)
{
    char dir[PATH_MAX];
    if (path_of(dir, NULL, path, "", err) < 0)
        return -1;
    char *slash = strrchr(dir, '/');
    if (slash != NULL)
        slash[slash == dir] = '\0'; /* "/NAME" is in "/" */
    return file_atomic_sync(slash != NULL ? dir : ".", err);
}

/* ---- in steps -------------------------------------------------------------
 */

int file_atomic_open(struct file_atomic *f, const char *dir, const char *name,
                     struct error *err)
{
    if (buf_addf(&f->path, err, "%s/%s", dir, name) == 0 &&
        buf_addf(&f->tmp, err, "%s.tmp", buf_str(&f->path)) == 0)
        f->fd =
            create_anew(buf_str(&f->tmp), buf_str(&f->path), FILE_PUBLIC, err);
    if (f->fd < 0)
        buf_reset(&f->tmp);
    return f->fd < 0 ? -1 : 0;
}

int file_atomic_write(struct file_atomic *f, const void *p, size_t n,
                      struct error *err)
{
    return write_all(f->fd, buf_str(&f->path), p, n, err);
}

int file_atomic_close(struct file_atomic *f, struct error *err)
{
    int rc = finish(f->fd, buf_str(&f->path), 0, 0, err);
    f->fd = -1;
    return rc;
}

int file_atomic_rename(struct file_atomic *f, struct error *err)
{
    if (give_name(buf_str(&f->tmp), buf_str(&f->path), err) < 0)
        return -1;
    buf_reset(&f->tmp);
    return 0;
}

void file_atomic_clear(struct file_atomic *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->tmp.len > 0)
        (void)unlink(buf_str(&f->tmp));
    buf_clear(&f->path);
    buf_clear(&f->tmp);
    f->fd = -1;
}
