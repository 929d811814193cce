/* token_lock.c - see token_lock.h. */
#include "worker/data/text/token_lock.h"

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

int token_lock_open(const char *path)
{
    return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
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
