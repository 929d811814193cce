/* token_lock.c - see token_lock.h. */
#include "worker/data/cache/token_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* "0413\n": thousandths, always as long, so that no reader sees the end of an
 * older text. */
enum { TOLD_BYTES = 5, WHOLE = 1000 };

int token_lock_open(const char *path, struct error *err)
{
    struct stat st;
    int rc = 0;
    int fd = open(
        path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY,
        0600);
    if (fd < 0)
        return error_sys(err, errno, "'%s'", path);
    if (fstat(fd, &st) < 0)
        rc = error_sys(err, errno, "'%s'", path);
    else if (!S_ISREG(st.st_mode))
        rc = error_set(err, ERR_INVAL, "'%s' is not a regular file", path);
    else if ((st.st_uid != geteuid() && st.st_uid != 0) ||
             (st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        rc = error_set(err, ERR_DENIED,
                       "'%s' is not a lock that only this user can take", path);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return -1;
}

int token_lock_try(int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return errno == EWOULDBLOCK || errno == EINTR ? 1 : -1;
}

bool token_lock_is_gone(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_nlink == 0;
}

void token_lock_tell(int fd, double share)
{
    char text[16];
    const double part = share > 0 ? fmin(share, 1) : 0;
    const int n =
        snprintf(text, sizeof(text), "%04d\n", (int)(part * (double)WHOLE));
    ssize_t ignored = n == TOLD_BYTES ? pwrite(fd, text, TOLD_BYTES, 0) : 0;
    (void)ignored;
}

double token_lock_told(int fd)
{
    char text[TOLD_BYTES + 1] = "", *end = NULL;
    if (pread(fd, text, TOLD_BYTES, 0) != TOLD_BYTES)
        return (double)NAN;
    const long n = strtol(text, &end, 10);
    if (end != text + TOLD_BYTES - 1 || *end != '\n' || n < 0 || n > WHOLE)
        return (double)NAN;
    return (double)n / WHOLE;
}
