/* helper.c - main of mgpu-slurm-helper: the supervisor.
 *
 *   mgpu-ctld ==3== rpc child (libslurm)     == is a socket that is shared
 *            \=4=== files child                 with the supervisor
 *
 * libslurm exits the process on some errors (fatal() is exit(1)), and blocks
 * when slurmctld hangs. So it runs in a process of its own, which the
 * supervisor restarts: after 1 s, and after up to 5 s if it dies again at once.
 * The daemon keeps its socket meanwhile and receives a new "hello". The
 * supervisor forwards the output of a child at a limited rate: libslurm prints
 * the same error for every call that fails.
 *
 * When the daemon exits, the sockets hang up and all processes exit. When the
 * supervisor is killed, the kernel kills its children (PR_SET_PDEATHSIG; the
 * supervisor has one thread, so the "parent" that the kernel watches is the
 * whole process). */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "slurm/as_user/as_user.h"
#include "slurm/as_user/files.h"
#include "slurm/helper/helper.h"

static const double BACKOFF_FIRST_S = 1, BACKOFF_MAX_S = 5;
/* A child that lived this long did not die of the previous error. */
static const double GOOD_LIFE_S = 60;
/* This many lines at once, then one line per LINE_EVERY_S. */
static const double LINES_BURST = 20, LINE_EVERY_S = 10;
enum { LINE_CAP = 512 };

enum { RPC, FILES, N_CHILDREN };

struct child {
    const char *name;
    int socket; /* -1: not configured */
    pid_t pid;  /* 0: not running */
    int err_fd; /* its standard error; -1 */
    uint64_t generation;
    double started_s, start_at_s, backoff_s;
    char line[LINE_CAP]; /* an incomplete line */
    size_t len;
    double tokens, counted_s;
    unsigned n_dropped;
};

struct supervisor {
    const struct helper_conf *conf;
    sigset_t before; /* the signal mask at start */
    int signal_fd;
    struct child children[N_CHILDREN];
};

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

/* ---- output of children -------------------------------------------------- */
static void pass_on(struct child *c)
{
    double now = now_s();
    c->tokens += (now - c->counted_s) / LINE_EVERY_S;
    c->tokens = c->tokens > LINES_BURST ? LINES_BURST : c->tokens;
    c->counted_s = now;
    c->line[c->len] = '\0';
    c->len = 0;
    if (c->line[0] == '\0')
        return;
    if (c->tokens < 1) {
        c->n_dropped++;
        return;
    }
    c->tokens -= 1;
    if (c->n_dropped > 0)
        log_warn("helper", "dropped %u lines of output of %s", c->n_dropped,
                 c->name);
    c->n_dropped = 0;
    log_warn("helper", "%s: %s", c->name, c->line);
}

/* false: there is no more for now. */
static bool read_lines(struct child *c)
{
    char part[4096];
    ssize_t n = read(c->err_fd, part, sizeof(part));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    for (ssize_t i = 0; i < n; i++) {
        if (part[i] != '\n' && c->len < LINE_CAP - 1)
            c->line[c->len++] = part[i];
        if (part[i] == '\n')
            pass_on(c);
    }
    if (n <= 0) {
        if (c->len > 0)
            pass_on(c);
        (void)close(c->err_fd);
        c->err_fd = -1;
    }
    return n > 0;
}

/* ---- children ------------------------------------------------------------ */
static void live(const struct supervisor *s, int which)
    __attribute__((noreturn));

static void live(const struct supervisor *s, int which)
{
    const struct child *c = &s->children[which];
    const struct helper_conf *conf = s->conf;
    char name[16];
    (void)snprintf(name, sizeof(name), "mgpu-%s", c->name); /* for ps(1) */
    (void)prctl(PR_SET_NAME, name);
    (void)close(s->signal_fd);
    for (int i = 0; i < N_CHILDREN; i++)
        if (i != which && s->children[i].socket >= 0)
            (void)close(s->children[i].socket);
    if (fcntl(c->socket, F_SETFD, FD_CLOEXEC) < 0)
        _exit(1);
    (void)sigprocmask(SIG_SETMASK, &s->before, NULL);
    if (which == RPC)
        helper_rpc(conf, c->socket, c->generation);
    enum files_whom whom = !conf->is_system ? FILES_OWN
                           : conf->may_root ? FILES_ALL
                                            : FILES_USERS;
    exit(files_serve(c->socket, whom, conf->slurm_conf));
}

static void start(struct supervisor *s, int which)
{
    struct child *c = &s->children[which];
    int fds[2];
    pid_t parent = getpid();
    if (c->err_fd >= 0)
        (void)close(c->err_fd);
    c->err_fd = -1;
    c->generation++;
    c->started_s = now_s();
    if (pipe2(fds, O_CLOEXEC) < 0) {
        log_err("helper", "cannot start %s: pipe: %s", c->name,
                strerror(errno));
        c->start_at_s = now_s() + BACKOFF_MAX_S;
        return;
    }
    c->pid = fork();
    if (c->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent || dup2(fds[1], 2) < 0)
            _exit(1);
        (void)close(fds[0]);
        (void)close(fds[1]);
        live(s, which);
    }
    (void)close(fds[1]);
    if (c->pid < 0) {
        log_err("helper", "cannot start %s: fork: %s", c->name,
                strerror(errno));
        c->pid = 0;
        c->start_at_s = now_s() + BACKOFF_MAX_S;
        (void)close(fds[0]);
        return;
    }
    (void)fcntl(fds[0], F_SETFL, O_NONBLOCK);
    c->err_fd = fds[0];
}

static void say_end(const struct child *c, int status)
{
    if (WIFSIGNALED(status))
        log_err("helper", "%s died of signal %d; restarting in %g s", c->name,
                WTERMSIG(status), c->backoff_s);
    else
        log_err("helper", "%s ended with status %d; restarting in %g s",
                c->name, WEXITSTATUS(status), c->backoff_s);
}

static void reap(struct supervisor *s)
{
    pid_t pid;
    int status;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < N_CHILDREN; i++) {
            struct child *c = &s->children[i];
            if (c->pid != pid)
                continue;
            c->pid = 0;
            while (c->err_fd >= 0 && read_lines(c)) /* its last lines */
                ;
            if (now_s() - c->started_s > GOOD_LIFE_S)
                c->backoff_s = BACKOFF_FIRST_S;
            say_end(c, status);
            c->start_at_s = now_s() + c->backoff_s;
            c->backoff_s += 1;
            if (c->backoff_s > BACKOFF_MAX_S)
                c->backoff_s = BACKOFF_MAX_S;
        }
}

/* ---- the loop ------------------------------------------------------------ */
static int wait_ms(const struct supervisor *s)
{
    double wait_s = 3600;
    for (int i = 0; i < N_CHILDREN; i++) {
        const struct child *c = &s->children[i];
        double left = c->start_at_s - now_s();
        if (c->socket >= 0 && c->pid == 0 && left < wait_s)
            wait_s = left > 0 ? left : 0;
    }
    return (int)(wait_s * 1e3) + 1;
}

/* false: exit. */
static bool turn(struct supervisor *s)
{
    struct pollfd p[1 + 2 * N_CHILDREN] = {
        {.fd = s->signal_fd, .events = POLLIN}};
    for (int i = 0; i < N_CHILDREN; i++) {
        struct child *c = &s->children[i];
        if (c->socket >= 0 && c->pid == 0 && c->start_at_s <= now_s())
            start(s, i);
        p[1 + i] = (struct pollfd){.fd = c->socket}; /* only hang-ups */
        p[1 + N_CHILDREN + i] =
            (struct pollfd){.fd = c->err_fd, .events = POLLIN};
    }
    if (poll(p, sizeof(p) / sizeof(p[0]), wait_ms(s)) < 0)
        return errno == EINTR;
    for (int i = 0; i < N_CHILDREN; i++) {
        if (p[1 + i].revents)
            return false;
        if (p[1 + N_CHILDREN + i].revents && s->children[i].err_fd >= 0)
            (void)read_lines(&s->children[i]);
    }
    struct signalfd_siginfo info;
    while (read(s->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo != SIGCHLD)
            return false;
        reap(s);
    }
    return true;
}

static void end_children(struct supervisor *s)
{
    for (int i = 0; i < N_CHILDREN; i++)
        if (s->children[i].pid > 1)
            (void)kill(s->children[i].pid, SIGKILL);
    for (int i = 0; i < N_CHILDREN; i++)
        if (s->children[i].pid > 1)
            while (waitpid(s->children[i].pid, NULL, 0) < 0 && errno == EINTR)
                ;
}

static bool is_socket(int fd)
{
    int type;
    socklen_t len = sizeof(type);
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
}

/* libslurm and its plug-ins read these. */
static void clean_environment(void)
{
    static const char *const prefixes[] = {"SLURM",  "SPANK", "SALLOC",
                                           "SBATCH", "PMI",   "OMPI_"};
    for (size_t i = 0; environ[i];) {
        const char *eq = strchr(environ[i], '=');
        char name[256];
        bool is = false;
        size_t n = eq ? (size_t)(eq - environ[i]) : sizeof(name);
        for (size_t k = 0; k < sizeof(prefixes) / sizeof(prefixes[0]); k++)
            is = is ||
                 strncmp(environ[i], prefixes[k], strlen(prefixes[k])) == 0;
        if (!is || n >= sizeof(name)) {
            i++;
            continue;
        }
        memcpy(name, environ[i], n);
        name[n] = '\0';
        (void)unsetenv(name); /* the rest moves up */
    }
}

static int set_up(struct supervisor *s, struct error *err)
{
    static const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t set;
    if (!is_socket(HELPER_RPC_FD))
        return error_set(err, ERR_USAGE, "descriptor %d is not a socket",
                         HELPER_RPC_FD);
    for (int i = 0; i < N_CHILDREN; i++)
        s->children[i] = (struct child){.socket = -1,
                                        .err_fd = -1,
                                        .backoff_s = BACKOFF_FIRST_S,
                                        .tokens = LINES_BURST,
                                        .counted_s = now_s()};
    s->children[RPC].name = "rpc";
    s->children[RPC].socket = HELPER_RPC_FD;
    s->children[FILES].name = "files";
    if (is_socket(HELPER_FILES_FD))
        s->children[FILES].socket = HELPER_FILES_FD;
    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* From a terminal: the daemon decides, and hangs up when it exits. */
    (void)sigaction(SIGINT, &ignore, NULL);
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, &s->before);
    s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->signal_fd < 0)
        return error_sys(err, errno, "wait for signals");
    if (chdir("/") < 0)
        return error_sys(err, errno, "change the directory");
    clean_environment();
    return 0;
}

int main(int argc, char **argv)
{
    struct helper_conf conf;
    struct supervisor s = {.conf = &conf};
    struct error err = ERROR_INIT;
    int rc;
    if (as_user_main(argc, argv, &rc))
        return rc;
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        return fputs(helper_usage, stdout) < 0 || fflush(stdout) < 0;
    if (helper_conf_parse(argc, argv, &conf, &err) < 0 ||
        set_up(&s, &err) < 0) {
        (void)fprintf(stderr, "mgpu-slurm-helper: %s\n", err.msg);
        return error_exit_status(err.code);
    }
    while (turn(&s))
        ;
    end_children(&s);
    return 0;
}
