/* launcher.c - see launcher.h. */
#include "slurm/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/signals.h"

/* A pipe holds 64 KiB; this is 4 MiB. */
enum { COPY_BYTES = 65536, DRAIN_COPIES = 64 };

static void __attribute__((noreturn))
become(const char *who, char *const *argv, int out_fd, pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(127);
    signals_plain();
    if (dup2(out_fd, 1) >= 0 && dup2(out_fd, 2) >= 0)
        (void)execvp(argv[0], argv);
    dprintf(2, "%s: cannot run '%s': %s\n", who, argv[0], strerror(errno));
    _exit(127);
}

int launcher_start(const char *who, char *const *argv, struct launcher *ret,
                   struct error *err)
{
    int ends[2] = {-1, -1};
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    pid_t pid = -1;
    if (fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0) {
        pid = fork();
        if (pid == 0)
            become(who, argv, ends[1], self);
    }
    int saved = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return error_sys(err, saved, "start '%s'", argv[0]);
    }
    *ret = (struct launcher){.pid = pid, .out_fd = ends[0]};
    return 0;
}

/* Once: one that prints faster than we read would keep us for ever. */
void launcher_copy(struct launcher *l, struct outputs *to)
{
    static char bytes[COPY_BYTES];
    ssize_t n;
    do
        n = read(l->out_fd, bytes, sizeof(bytes));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        outputs_add(to, bytes, (size_t)n);
    if (n != 0)
        return;
    (void)close(l->out_fd);
    l->out_fd = -1;
}

void launcher_drain(struct launcher *l, struct outputs *to)
{
    for (int n = 0; l->out_fd >= 0 && n < DRAIN_COPIES; n++)
        launcher_copy(l, to);
    if (l->out_fd >= 0)
        (void)close(l->out_fd);
    l->out_fd = -1;
}

void launcher_exit(int wait_status, struct attempt_exit *ret)
{
    ret->code = ret->signal = 0;
    if (WIFSIGNALED(wait_status)) {
        ret->signal = WTERMSIG(wait_status);
        return;
    }
    int code = WEXITSTATUS(wait_status);
    if (code > 128 && code - 128 < 32)
        ret->signal = code - 128;
    else
        ret->code = code;
}
