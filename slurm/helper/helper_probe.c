/* helper_probe.c - answer commands until libslurm is safe to call.
 *
 * An error in slurm.conf, or a missing plug-in, ends the process that calls
 * libslurm. So a trial child calls it first, with its output captured, and as
 * long as that fails the daemon receives the reason why Slurm is down. There
 * are no threads yet, so fork(2) is safe. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "slurm/helper/conf_copy.h"
#include "slurm/helper/helper.h"

static const double RETRY_FIRST_S = 1, RETRY_MAX_S = 5;

struct trial {
    pid_t pid;
    int err_fd;
    char said[256]; /* the last line that it printed */
    size_t len;
    bool is_over; /* the line is complete: the next byte begins another */
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

void helper_conf_path(int fd, char ret[static HELPER_CONF_PATH_CAP])
{
    (void)snprintf(ret, HELPER_CONF_PATH_CAP, "/proc/self/fd/%d", fd);
}

bool helper_has_new_conf(const struct helper *h)
{
    const struct stat *old = &h->conf_stat;
    struct stat now;
    return stat(h->conf->slurm_conf, &now) == 0 &&
           (now.st_dev != old->st_dev || now.st_ino != old->st_ino ||
            now.st_size != old->st_size ||
            now.st_mtim.tv_sec != old->st_mtim.tv_sec ||
            now.st_mtim.tv_nsec != old->st_mtim.tv_nsec);
}

static int begin(struct trial *t, int conf_fd, struct error *err)
{
    int fds[2];
    char path[HELPER_CONF_PATH_CAP];
    pid_t parent = getpid();
    helper_conf_path(conf_fd, path);
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, errno, "make a pipe");
    *t = (struct trial){.err_fd = fds[0], .pid = fork()};
    if (t->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fds[1], 2) < 0)
            _exit(1);
        exit(rpc_call_try(path));
    }
    int saved = errno;
    (void)close(fds[1]);
    if (t->pid < 0) {
        (void)close(fds[0]);
        return error_sys(err, saved, "start a process");
    }
    return 0;
}

/* false: it has closed its output. */
static bool listen_to(struct trial *t)
{
    char part[512];
    ssize_t n = read(t->err_fd, part, sizeof(part));
    if (n < 0 && errno == EINTR)
        return true;
    for (ssize_t i = 0; i < n; i++) {
        if (part[i] == '\n') {
            t->is_over = true;
            continue;
        }
        if (t->is_over)
            t->len = 0;
        t->is_over = false;
        if (t->len < sizeof(t->said) - 1)
            t->said[t->len++] = part[i];
    }
    t->said[t->len] = '\0';
    return n > 0;
}

static void answer_all(struct helper *h, struct helper_in *in)
{
    struct helper_cmd c;
    while (helper_line_next(h, in, &c)) {
        helper_do(h, &c);
        helper_cmd_clear(&c);
    }
}

/* Serves until fd is readable (-1: none) or the time is up. Commands wait as
 * long as no error is known. */
static void serve_until(struct helper *h, struct helper_in *in, int fd,
                        double until_s)
{
    double left = until_s - now_s();
    struct pollfd p[2] = {{.fd = h->is_down ? h->fd : -1, .events = POLLIN},
                          {.fd = fd, .events = POLLIN}};
    int n = poll(p, 2, left > 0 ? (int)(left * 1e3) + 1 : 0);
    if (n > 0 && p[0].revents) {
        helper_line_read(h, in, 0);
        answer_all(h, in);
    }
}

/* Ends the trial child.
 * err its last line, or its exit status; ERR_UNAVAIL: only that Slurm does not
 *      answer */
static int end(struct trial *t, bool is_late, struct error *err)
{
    int status = 0;
    (void)kill(t->pid, SIGKILL);
    while (waitpid(t->pid, &status, 0) < 0 && errno == EINTR)
        ;
    (void)close(t->err_fd);
    if (is_late)
        return error_set(err, ERR_TIMEOUT, "reading the configuration hangs");
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == RPC_TRY_UNAVAIL)
        return error_set(err, ERR_UNAVAIL, "%s", t->said);
    if (t->len > 0)
        return error_set(err, ERR_CONFIG, "%s", t->said);
    return error_set(err, ERR_CONFIG, "libslurm ended the process (%d)",
                     status);
}

static int try_once(struct helper *h, struct helper_in *in, int conf_fd,
                    struct error *err)
{
    struct trial t;
    /* More than two calls: munged alone may take 2 s to fail. */
    double until_s = now_s() + 2 * h->conf->call_timeout_s + 10;
    if (begin(&t, conf_fd, err) < 0)
        return -1;
    bool is_open = true;
    while (is_open && now_s() < until_s) {
        serve_until(h, in, t.err_fd, until_s);
        struct pollfd p = {.fd = t.err_fd, .events = POLLIN};
        if (poll(&p, 1, 0) > 0)
            is_open = listen_to(&t);
    }
    return end(&t, is_open, err);
}

void helper_lobby(struct helper *h, struct helper_in *in, int *ret_fd)
{
    double retry_s = RETRY_FIRST_S;
    for (;;) {
        struct error why = ERROR_INIT;
        int fd = -1;
        (void)stat(h->conf->slurm_conf, &h->conf_stat);
        int rc = conf_copy(h->conf->slurm_conf, (int)h->conf->call_timeout_s,
                           &fd, &why);
        if (rc == 0) {
            rc = try_once(h, in, fd, &why);
            if (rc < 0 && why.code == ERR_CONFIG)
                (void)error_wrap(&why, "%s", h->conf->slurm_conf);
        }
        if (rc < 0)
            helper_down(h, &why);
        if (rc == 0 || why.code == ERR_UNAVAIL) {
            *ret_fd = fd;
            return;
        }
        if (fd >= 0)
            (void)close(fd);
        double until_s = now_s() + retry_s;
        while (now_s() < until_s)
            serve_until(h, in, -1, until_s);
        retry_s = retry_s * 2 > RETRY_MAX_S ? RETRY_MAX_S : retry_s * 2;
    }
}
