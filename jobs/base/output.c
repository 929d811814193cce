/* output.c - close standard output, find the cause of a lost write; see
 * output.h. */
#include "jobs/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void output_reserve(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            return; /* without it the descriptors stay as they are */
}

static void on_pipe(int signo)
{
    (void)signo;
    _exit(0);
}

void output_quiet_pipe(void)
{
    struct sigaction sa = {.sa_handler = on_pipe};
    (void)sigaction(SIGPIPE, &sa, NULL);
}

/* Finds the cause of a failed write: stdio has dropped the output and its
 * errno. Repeat a harmless operation to obtain the error: a write of no bytes
 * fails on a device in the same way as a real one; on a full disk, allocating
 * space behind the end fails. Returns 0 if it finds nothing. */
static int ask_why(FILE *out)
{
    int fd = fileno(out);
    struct stat st;
    if (write(fd, "", 0) < 0)
        return errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
        fallocate(fd, FALLOC_FL_KEEP_SIZE, st.st_size, st.st_blksize) == 0)
        return 0;
    /* Other errors are those of the probe itself. */
    return errno == ENOSPC || errno == EDQUOT || errno == EIO ? errno : 0;
}

int output_close(FILE *out, struct error *err)
{
    bool failed = ferror(out) != 0;
    errno = 0;
    if (fflush(out) != 0)
        failed = true;
    int why = errno;
    if (failed && why == 0)
        why = ask_why(out);
    if (fclose(out) != 0 && !failed) {
        failed = true;
        why = errno;
    }
    if (!failed)
        return 0;
    return error_set(err, ERR_IO, "write to standard output: %s",
                     why ? strerror(why) : "failed");
}
