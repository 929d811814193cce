/* launcher.c - start the launcher, read its pipe and terminal; see
 * launcher.h. */
#include "slurm/launch/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "jobs/base/signals.h"

/* A pipe holds 64 KiB; this is 4 MiB. */
enum { COPY_BYTES = 65536, DRAIN_COPIES = 64 };

/* ---- the child ------------------------------------------------------------
 */
struct ends {
    int pipe[2]; /* ours, the child's */
    int tty[2];  /* -1: none */
};

static void __attribute__((noreturn))
become(const char *who, char *const *argv, enum launcher_kind kind,
       const struct ends *e, pid_t parent)
{
    int death = kind == IS_THE_RANK ? SIGKILL : SIGTERM;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, death);
    if (getppid() != parent)
        _exit(127);
    signals_plain();
    if (kind == IS_THE_RANK)
        signals_hold_users();
    if (dup2(e->tty[1] >= 0 ? e->tty[1] : e->pipe[1], 1) >= 0 &&
        dup2(e->pipe[1], 2) >= 0)
        (void)execvp(argv[0], argv);
    dprintf(2, "%s: cannot run '%s': %s\n", who, argv[0], strerror(errno));
    _exit(127);
}

static void close_both(int fds[2])
{
    for (int i = 0; i < 2; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
        fds[i] = -1;
    }
}

/* Both stay -1 if no terminal can be opened. */
static void open_tty(int ret[2])
{
    char name[64];
    struct termios t;
    ret[0] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ret[0] >= 0 && grantpt(ret[0]) == 0 && unlockpt(ret[0]) == 0 &&
        ptsname_r(ret[0], name, sizeof(name)) == 0)
        ret[1] = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (ret[1] >= 0 && tcgetattr(ret[1], &t) == 0) {
        cfmakeraw(&t);
        if (tcsetattr(ret[1], TCSANOW, &t) == 0 &&
            fcntl(ret[0], F_SETFL, O_NONBLOCK) == 0)
            return;
    }
    close_both(ret);
}

int launcher_start(const char *who, char *const *argv, enum launcher_kind kind,
                   struct launcher *ret, struct error *err)
{
    struct ends e = {.pipe = {-1, -1}, .tty = {-1, -1}};
    pid_t self = getpid(), pid = -1;
    if (pipe2(e.pipe, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    if (kind == IS_THE_RANK)
        open_tty(e.tty);
    if (fcntl(e.pipe[0], F_SETFL, O_NONBLOCK) == 0) {
        pid = fork();
        if (pid == 0)
            become(who, argv, kind, &e, self);
    }
    if (pid < 0) {
        (void)error_sys(err, errno, "start '%s'", argv[0]);
        close_both(e.pipe);
        close_both(e.tty);
        return -1;
    }
    (void)close(e.pipe[1]);
    if (e.tty[1] >= 0)
        (void)close(e.tty[1]);
    *ret =
        (struct launcher){.pid = pid, .out_fd = e.pipe[0], .tty_fd = e.tty[0]};
    return 0;
}

/* ---- its output -----------------------------------------------------------
 */
/* Returns whether it copied something. Reading a terminal whose other end is
 * closed fails with EIO. */
static bool copy(int *fd, struct outputs *to)
{
    static char bytes[COPY_BYTES];
    ssize_t n;
    if (*fd < 0)
        return false;
    do
        n = read(*fd, bytes, sizeof(bytes));
    while (n < 0 && errno == EINTR);
    if (n > 0)
        outputs_add(to, bytes, (size_t)n);
    if (n == 0 || (n < 0 && errno == EIO)) {
        (void)close(*fd);
        *fd = -1;
    }
    return n > 0;
}

/* Once per call: output that is faster than our reads would keep us here for
 * ever. */
void launcher_copy(struct launcher *l, struct outputs *to)
{
    (void)copy(&l->tty_fd, to);
    (void)copy(&l->out_fd, to);
}

static void drain(int *fd, struct outputs *to)
{
    for (int n = 0; n < DRAIN_COPIES && copy(fd, to); n++)
        continue;
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

void launcher_drain(struct launcher *l, struct outputs *to)
{
    drain(&l->tty_fd, to);
    drain(&l->out_fd, to);
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
