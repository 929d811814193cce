/* daemonize.c - see daemonize.h. One byte through a pipe: the exit status.
 * A daemon that dies without a word closes the pipe, and that is a failure
 * too. */
#include "scheduler/ctld/startup/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int to_parent = -1;
static char log_path[4096]; /* "": the log is somebody else's */

static _Noreturn void wait_for_verdict(int fd)
{
    unsigned char status = 0;
    ssize_t n = 0;
    do
        n = read(fd, &status, 1);
    while (n < 0 && errno == EINTR);
    _exit(n == 1 ? status : error_exit_status(ERR_INTERNAL));
}

int daemonize_start(struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    pid_t pid = fork();
    if (pid < 0) {
        (void)error_sys(err, errno, "start a process");
        (void)close(fds[0]);
        (void)close(fds[1]);
        return -1;
    }
    if (pid > 0) {
        (void)close(fds[1]);
        (void)waitpid(pid, NULL, 0); /* the one in between ends at once */
        wait_for_verdict(fds[0]);
    }
    (void)close(fds[0]);
    (void)setsid();
    pid = fork(); /* no session leader: never gets a terminal again */
    if (pid != 0)
        _exit(pid < 0 ? error_exit_status(ERR_INTERNAL) : 0);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null >= 0) {
        (void)dup2(null, STDIN_FILENO);
        (void)close(null);
    }
    to_parent = fds[1];
    return 0;
}

static void tell(int status)
{
    unsigned char byte = (unsigned char)status;
    if (to_parent < 0)
        return;
    ssize_t ignored = write(to_parent, &byte, 1);
    (void)ignored;
    (void)close(to_parent);
    to_parent = -1;
}

/* Takes the places of the old one in one move each: no line is lost. */
static int open_log(struct error *err)
{
    int fd = open(log_path,
                  O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", log_path);
    (void)dup2(fd, STDOUT_FILENO);
    (void)dup2(fd, STDERR_FILENO);
    (void)close(fd);
    return 0;
}

int daemonize_reopen(struct error *err)
{
    return log_path[0] ? open_log(err) : 0;
}

int daemonize_ready(const char *log_file, bool always, struct error *err)
{
    if (to_parent < 0 && !always)
        return 0;
    int n = snprintf(log_path, sizeof(log_path), "%s", log_file);
    if (n < 0 || (size_t)n >= sizeof(log_path))
        return error_set(err, ERR_CONFIG, "'%s' is too long", log_file);
    if (open_log(err) < 0)
        return -1;
    if (to_parent < 0)
        return 0;
    if (chdir("/") < 0) /* keep no file system from being unmounted */
        return error_sys(err, errno, "chdir '/'");
    tell(0);
    return 0;
}

void daemonize_failed(int status)
{
    tell(status);
}
