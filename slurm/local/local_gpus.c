/* local_gpus.c - drain GPUs that fail while the allocator runs; see local.h.
 *
 * mgpu-gpuwatch reports them (gpuwatch.c). A reported GPU gets no new attempts
 * until local_gpus_mend() or a restart of the daemon; an attempt on it
 * continues as long as it can. The watch is optional: if it cannot be started,
 * dies or does not answer, GPUs are allocated as before, and the node's `why`
 * says so. */
#include "slurm/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "jobs/base/spawn_program.h"

/* Delay before a watch that died is restarted, and how long the allocator waits
 * for it at its own end: it exits with its input, or is killed. */
static const double AGAIN_S = 60;
enum { GONE_MS = 1000, OUT_OF_THE_WAY = 10 };

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

bool local_is_usable(const struct alloc_local *l, int32_t slot)
{
    return l->busy[slot] == 0 && !(l->has_gpus && l->gpus[slot].why[0] != '\0');
}

/* ---- its process -----------------------------------------------------------
 */
/* Returns an errno. */
static int spawn(const struct alloc_local *l, int fd, pid_t *ret)
{
    const char *argv[GPUS_CAP + 4] = {l->watcher, l->nvml ? l->nvml : "",
                                      l->watch.is_accepted ? "as-is"
                                                           : "strict"};
    const struct spawn_program p = {.program = l->watcher,
                                    .argv = argv,
                                    .fds = {fd, fd, SPAWN_SAME},
                                    .n_fds = 3};
    for (int32_t i = 0; i < l->n_slots; i++)
        argv[3 + i] = l->gpus[i].gpu.uuid;
    return spawn_program(&p, ret);
}

/* Ours is `fds[0]`, and does not block. -1: neither is open. */
static int make_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return -1;
    /* dup2 onto the same number would leave it to be closed on exec. */
    int far = fcntl(fds[1], F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
    (void)close(fds[1]);
    fds[1] = far;
    if (far >= 0 && fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0)
        return 0;
    (void)close(fds[0]);
    if (far >= 0)
        (void)close(far);
    return -1;
}

static void tell(const struct alloc_local *l, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void tell(const struct alloc_local *l, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (l->tell)
        l->tell(text);
}

/* Each retry may fail with the same reason; report it once. */
static void say_unwatched(struct alloc_local *l, const char *why)
{
    struct gpu_watch *w = &l->watch;
    char text[sizeof(w->why)];
    (void)snprintf(text, sizeof(text), "GPUs are not watched: %s", why);
    if (strcmp(text, w->why) == 0)
        return;
    memcpy(w->why, text, sizeof(text));
    w->is_news = true;
    tell(l, "%s", text);
}

void local_gpus_watch(struct alloc_local *l)
{
    struct gpu_watch *w = &l->watch;
    struct epoll_event ev = {.events = EPOLLIN};
    int fds[2];
    pid_t pid = 0;
    if (!l->has_gpus || !l->watcher || w->pidfd >= 0)
        return;
    w->again_s = now_s() + AGAIN_S;
    if (make_pair(fds) < 0) {
        say_unwatched(l, strerror(errno));
        return;
    }
    int rc = spawn(l, fds[1], &pid);
    (void)close(fds[1]);
    w->pidfd = rc == 0 ? pidfd_open(pid, 0) : -1;
    if (w->pidfd < 0 || epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fds[0], &ev) < 0)
        say_unwatched(l, strerror(rc != 0 ? rc : errno));
    w->fd = fds[0];
    w->len = 0;
    w->asked = w->answered = 0;
    if (pid > 0 && w->pidfd < 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
    if (w->pidfd < 0)
        local_gpus_leave(l);
    /* The answer shows that it works. */
    else if (send(w->fd, "?", 1, MSG_NOSIGNAL) == 1)
        w->asked = 1;
}

void local_gpus_leave(struct alloc_local *l)
{
    struct gpu_watch *w = &l->watch;
    siginfo_t si;
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
    if (w->pidfd < 0)
        return;
    struct pollfd gone = {.fd = w->pidfd, .events = POLLIN};
    (void)pidfd_send_signal(w->pidfd, SIGKILL, NULL, 0);
    /* If it hangs in the driver, init inherits it. */
    if (poll(&gone, 1, GONE_MS) > 0)
        (void)waitid(P_PIDFD, (id_t)w->pidfd, &si, WEXITED | WNOHANG);
    (void)close(w->pidfd);
    w->pidfd = -1;
}

/* ---- its messages ----------------------------------------------------------
 */
static void take_line(struct alloc_local *l, const char *line)
{
    struct gpu_watch *w = &l->watch;
    char *end = NULL;
    if (strcmp(line, "ok") == 0) {
        w->answered++;
        w->is_news = w->is_news || w->why[0] != '\0';
        w->why[0] = '\0';
    } else if (strncmp(line, "no ", 3) == 0) {
        say_unwatched(l, line + 3);
    } else if (strncmp(line, "bad ", 4) == 0) {
        long i = strtol(line + 4, &end, 10);
        if (*end != ' ' || i < 0 || i >= l->n_slots || l->gpus[i].why[0])
            return;
        (void)snprintf(l->gpus[i].why, sizeof(l->gpus[i].why), "%s", end + 1);
        w->is_news = true;
        tell(l, "GPU %ld is drained: %s", i, l->gpus[i].why);
    }
}

void local_gpus_listen(struct alloc_local *l)
{
    struct gpu_watch *w = &l->watch;
    ssize_t n = -1;
    while (w->fd >= 0 && (n = read(w->fd, w->line + w->len,
                                   sizeof(w->line) - 1 - w->len)) > 0) {
        w->len += (size_t)n;
        w->line[w->len] = '\0';
        for (char *nl; (nl = strchr(w->line, '\n')) != NULL;) {
            *nl = '\0';
            take_line(l, w->line);
            w->len -= (size_t)(nl + 1 - w->line);
            memmove(w->line, nl + 1, w->len + 1);
        }
        if (w->len == sizeof(w->line) - 1)
            w->len = 0; /* no line of ours is this long */
    }
    if (w->fd >= 0 && (n == 0 || (errno != EAGAIN && errno != EINTR))) {
        if (w->why[0] == '\0')
            say_unwatched(l, "mgpu-gpuwatch has died");
        local_gpus_leave(l);
    }
    if (w->fd < 0 && now_s() >= w->again_s)
        local_gpus_watch(l);
}

uint32_t local_gpus_ask(struct alloc_local *l)
{
    struct gpu_watch *w = &l->watch;
    if (w->fd < 0 || send(w->fd, "?", 1, MSG_NOSIGNAL) != 1)
        return 0;
    return ++w->asked;
}

bool local_gpus_has_answered(const struct alloc_local *l, uint32_t ask)
{
    return l->watch.fd < 0 || l->watch.answered >= ask;
}

/* ---- state of the GPUs -----------------------------------------------------
 */
void local_gpus_drained(const struct alloc_local *l, struct alloc_node *io)
{
    size_t len = 0, cap = sizeof(io->drained);
    for (int32_t i = 0; l->has_gpus && i < l->n_slots; i++) {
        if (l->gpus[i].why[0] == '\0')
            continue;
        if (len < cap)
            len += (size_t)snprintf(io->drained + len, cap - len, "%s%d",
                                    len > 0 ? "," : "", i);
        io->gpus_drained++;
        io->gpus_out += l->busy[i] == 0;
    }
}

void local_gpus_why(const struct alloc_local *l, char *ret, size_t cap)
{
    size_t len = (size_t)snprintf(ret, cap, "%s", l->why);
    for (int32_t i = 0; l->has_gpus && i < l->n_slots && len < cap; i++)
        if (l->gpus[i].why[0])
            len += (size_t)snprintf(ret + len, cap - len, "%sGPU %d: %s",
                                    len > 0 ? "; " : "", i, l->gpus[i].why);
    if (l->watch.why[0] && len < cap)
        (void)snprintf(ret + len, cap - len, "%s%s", len > 0 ? "; " : "",
                       l->watch.why);
}

bool local_gpus_blame(const struct alloc_local *l,
                      const struct local_attempt *a, struct error *ret)
{
    for (int32_t i = 0; l->has_gpus && i < l->n_slots; i++)
        if (a->used[i] && l->gpus[i].why[0]) {
            (void)error_set(ret, ERR_EXTERN, "GPU %d of %s: %s", i, l->host,
                            l->gpus[i].why);
            return true;
        }
    return false;
}

bool local_gpus_mend(struct alloc_local *l)
{
    bool is_any = false;
    for (int32_t i = 0; l->has_gpus && i < l->n_slots; i++) {
        is_any = is_any || l->gpus[i].why[0];
        l->gpus[i].why[0] = '\0';
    }
    if (!is_any)
        return false;
    /* Start another watch, which examines them afresh. */
    local_gpus_leave(l);
    l->watch.is_accepted = l->watch.is_news = true;
    local_gpus_watch(l);
    return true;
}
