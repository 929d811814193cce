/* staged_file.c - see staged_file.h. */
#include "worker/llm/files/staged_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int staged_file_create(struct staged_file *f, const char *dir, const char *name,
                       struct error *err)
{
    if (buf_addf(&f->path, err, "%s/%s", dir, name) < 0 ||
        buf_addf(&f->tmp, err, "%s.tmp", buf_str(&f->path)) < 0) {
        buf_reset(&f->tmp);
        return -1;
    }
    f->fd = open(buf_str(&f->tmp),
                 O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (f->fd < 0) {
        (void)error_sys(err, errno, "create '%s'", buf_str(&f->tmp));
        buf_reset(&f->tmp);
        return -1;
    }
    return 0;
}

int staged_file_write(struct staged_file *f, const void *p, size_t n,
                      struct error *err)
{
    for (const char *at = p; n > 0;) {
        ssize_t k = write(f->fd, at, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return error_sys(err, errno, "write '%s'", buf_str(&f->tmp));
        at += k;
        n -= (size_t)k;
    }
    return 0;
}

int staged_file_close(struct staged_file *f, struct error *err)
{
    int rc = 0;
    if (fsync(f->fd) < 0)
        rc = error_sys(err, errno, "sync '%s'", buf_str(&f->tmp));
    if (close(f->fd) < 0 && rc == 0)
        rc = error_sys(err, errno, "close '%s'", buf_str(&f->tmp));
    f->fd = -1;
    return rc;
}

int staged_file_rename(struct staged_file *f, struct error *err)
{
    if (rename(buf_str(&f->tmp), buf_str(&f->path)) < 0)
        return error_sys(err, errno, "rename '%s'", buf_str(&f->tmp));
    buf_reset(&f->tmp);
    return 0;
}

void staged_file_clear(struct staged_file *f)
{
    if (f->fd >= 0)
        (void)close(f->fd);
    if (f->tmp.len > 0)
        (void)unlink(buf_str(&f->tmp));
    buf_clear(&f->path);
    buf_clear(&f->tmp);
    f->fd = -1;
}

int staged_file_sync_dir(const char *dir, struct error *err)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = 0;
    if (fd < 0 || fsync(fd) < 0)
        rc = error_sys(err, errno, "sync '%s'", dir);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}
