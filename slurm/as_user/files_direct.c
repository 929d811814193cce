/* files_direct.c - files.h with our own identity. The helper's readers, which
 * have become the user, use this code, too.
 *
 * The user can write to the directory: its contents are untrusted input. So a
 * FIFO in a file's place must not block us, nor a link be followed. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/log/bounded_log.h"
#include "slurm/as_user/files.h"

static int fail(struct error *err, int errnum, const char *name)
{
    switch (errnum) {
    case EMFILE:
    case ENFILE:
        return error_set(err, ERR_LIMIT, "open '%s': too many files are open",
                         name);
    case ENOTDIR:
        return error_set(err, ERR_NOTFOUND, "open '%s': no such file", name);
    case ELOOP:
        return error_set(err, ERR_INVAL, "'%s' is a link", name);
    default:
        return error_sys(err, errnum, "open '%s'", name);
    }
}

static int open_regular(const char *dir, const char *name, int *ret_fd,
                        struct error *err)
{
    struct stat st;
    int dirfd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return fail(err, errno, dir);
    int fd =
        openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    int saved = errno;
    (void)close(dirfd);
    if (fd < 0)
        return fail(err, saved, name);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return error_set(err, ERR_INVAL, "'%s' is not a regular file", name);
    }
    *ret_fd = fd;
    return 0;
}

static int direct_read(struct files *f, uid_t uid, const char *dir,
                       const char *name, uint64_t offset, void *p, size_t cap,
                       size_t *ret_n, struct error *err)
{
    ssize_t n;
    int fd = -1;
    (void)f;
    (void)uid;
    if (offset > INT64_MAX)
        return error_set(err, ERR_INVAL, "an offset out of range");
    if (open_regular(dir, name, &fd, err) < 0)
        return -1;
    do
        n = pread(fd, p, cap, (off_t)offset);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        (void)error_sys(err, errno, "read '%s'", name);
    else
        *ret_n = (size_t)n;
    (void)close(fd);
    return n < 0 ? -1 : 0;
}

static int direct_log(struct files *f, uid_t uid, const char *dir,
                      uint64_t *io_offset, void *p, size_t cap, size_t *ret_n,
                      uint64_t *ret_dropped, struct error *err)
{
    (void)f;
    (void)uid;
    return bounded_log_read(dir, io_offset, p, cap, ret_n, ret_dropped, err);
}

static void direct_destroy(struct files *f)
{
    free(f);
}

int files_direct_create(struct files **ret, struct error *err)
{
    static const struct files_ops ops = {
        .read = direct_read, .log = direct_log, .destroy = direct_destroy};
    struct files *f = calloc(1, sizeof(*f));
    if (!f)
        return error_set(err, ERR_NOMEM, "files");
    f->ops = &ops;
    *ret = f;
    return 0;
}
