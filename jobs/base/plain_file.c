/* plain_file.c - see plain_file.h. */
#include "jobs/base/plain_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static int refuse(const char *path, const struct stat *st, struct error *err)
{
    return error_set(err, ERR_INVAL, "'%s' is %s", path,
                     st != NULL && S_ISDIR(st->st_mode) ? "a directory"
                                                        : "not a regular file");
}

/* What a clone without git-lfs has in place of a large file: three lines. */
static bool is_lfs_pointer(int fd, const struct stat *st)
{
    static const char head[] = "version https://git-lfs.github.com/spec/";
    char begin[sizeof(head) - 1];
    return st->st_size >= (off_t)sizeof(begin) && st->st_size <= 1024 &&
           pread(fd, begin, sizeof(begin), 0) == (ssize_t)sizeof(begin) &&
           memcmp(begin, head, sizeof(begin)) == 0;
}

int plain_file_open_at(int dir, const char *path, int flags, struct stat *ret,
                       struct error *err)
{
    struct stat st;
    int fd =
        openat(dir, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (fd < 0 && errno == ENXIO) /* a socket, or a device without a driver */
        return refuse(path, NULL, err);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", path);
    int rc = fstat(fd, &st) < 0 ? error_sys(err, errno, "stat '%s'", path) : 0;
    if (rc == 0 && !S_ISREG(st.st_mode))
        rc = refuse(path, &st, err);
    if (rc == 0 && is_lfs_pointer(fd, &st))
        rc = error_set(err, ERR_INVAL,
                       "'%s' is a pointer of git-lfs in place of the file: run "
                       "'git lfs pull' in its repository",
                       path);
    if (rc < 0) {
        (void)close(fd);
        return -1;
    }
    if (ret != NULL)
        *ret = st;
    return fd;
}

int plain_file_open(const char *path, int flags, struct stat *ret,
                    struct error *err)
{
    return plain_file_open_at(AT_FDCWD, path, flags, ret, err);
}
