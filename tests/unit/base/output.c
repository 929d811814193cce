/* output.c - a standard output that is closed stays unusable. */
#include "jobs/base/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/tap.h"

/* Bits of what is wrong, of a process that closes `closed`. */
static int without(const int *closed, int n)
{
    int bad = 0;
    char byte;
    for (int i = 0; i < n; i++)
        (void)close(closed[i]);
    output_reserve();
    int fd = open("/dev/null", O_RDWR);
    bad |= fd <= 2 ? 1 : 0;
    for (int i = 0; i < n; i++) {
        errno = 0;
        ssize_t did =
            closed[i] == 0 ? read(0, &byte, 1) : write(closed[i], "x", 1);
        bad |= did >= 0 || errno != EBADF ? 2 : 0;
    }
    return bad;
}

static void is_reserved(const int *closed, int n, const char *name)
{
    int status = -1;
    (void)fflush(stdout);
    pid_t pid = fork();
    if (pid == 0)
        _exit(without(closed, n));
    bool is_good = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
    ok(is_good, "%s (status %d)", name, status);
}

/* On a full disk only the end of a program sees that output is lost. */
static void test_close(void)
{
    struct error err = ERROR_INIT;
    FILE *full = fopen("/dev/full", "w");
    if (!full) {
        ok(false, "/dev/full is here");
        return;
    }
    (void)fputs("lost", full);
    is_int(output_close(full, &err), -1, "lost output is an error");
    ok(strstr(err.msg, "No space left on device"), "with its cause: %s",
       err.msg);
    FILE *fine = fopen("/dev/null", "w");
    ok(fine && output_close(fine, &err) == 0, "output that arrived is none");
}

int main(void)
{
    is_reserved((const int[]){1}, 1, "standard output is closed");
    is_reserved((const int[]){0}, 1, "standard input is closed");
    is_reserved((const int[]){2}, 1, "standard error is closed");
    is_reserved((const int[]){0, 1, 2}, 3, "all three are closed");
    is_reserved(NULL, 0, "none is closed");
    test_close();
    return tap_done();
}
