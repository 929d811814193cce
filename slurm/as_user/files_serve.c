/* files_serve.c - the other end of files_helper.c: a process that opens no path
 * itself. It has one reader per user (files_reader.c), started at the first
 * request for that user's files, ended after IDLE_S without one.
 *
 * A file system that hangs blocks only its user's reader: while that reader has
 * not answered, requests for its user fail at once, and after STUCK_S it is
 * killed, so that the user is served again when the file system recovers. A
 * reader that cannot be killed occupies one of the READERS_MAX places until it
 * ends.
 *
 * The daemon has one request in flight. An answer to an older one is late and
 * is dropped here. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/clock.h"
#include "slurm/as_user/files_reader.h"
#include "slurm/as_user/files_wire.h"
#include "slurm/as_user/protected_uids.h"

enum { READERS_MAX = 64, LOOK_MS = 5000, READER_FD = 3 };
static const double IDLE_S = 60, STUCK_S = 30;

struct reader {
    pid_t pid; /* 0: a free place */
    int fd;    /* -1: given up, waiting for it to end */
    uid_t uid;
    bool is_busy; /* with request seq */
    uint64_t seq;
    double since_s; /* when it got or answered its last request */
};

struct server {
    int fd;
    enum files_whom whom;
    const char *slurm_conf; /* or NULL */
    uint64_t seq;           /* the daemon's last request */
    struct reader readers[READERS_MAX];
    char packet[FILES_ANS_MAX + 1];
};

static double now(void)
{
    return clock_real.now_s(&clock_real);
}

/* If the daemon does not read its answers, drop them. */
static void send_up(const struct server *s, const void *p, size_t n)
{
    (void)send(s->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void refuse(const struct server *s, uint64_t seq,
                   const struct error *why)
{
    struct files_ans a = {
        .seq = seq, .code = why->code, .data = why->msg, .n = strlen(why->msg)};
    struct buf b = BUF_INIT;
    if (files_ans_encode(&a, &b, NULL) == 0)
        send_up(s, b.data, b.len);
    buf_clear(&b);
}

/* ---- readers --------------------------------------------------------------
 */
static void give_up(struct reader *r)
{
    if (r->fd >= 0)
        (void)close(r->fd);
    r->fd = -1;
    (void)kill(r->pid, SIGKILL); /* our child and not reaped yet, so the pid
                                  * is still its own */
}

static void reap(struct server *s)
{
    for (size_t i = 0; i < READERS_MAX; i++) {
        struct reader *r = &s->readers[i];
        if (r->pid == 0 || r->fd >= 0)
            continue;
        pid_t got = waitpid(r->pid, NULL, WNOHANG);
        if (got == r->pid || (got < 0 && errno == ECHILD))
            *r = (struct reader){.fd = -1};
    }
}

/* It waits in recv(2) and ends at once. */
static void retire(struct reader *r)
{
    give_up(r);
    while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    *r = (struct reader){.fd = -1};
}

/* Finds a free place, or frees that of the reader that was idle longest. */
static struct reader *find_place(struct server *s)
{
    struct reader *idlest = NULL;
    for (size_t i = 0; i < READERS_MAX; i++) {
        struct reader *r = &s->readers[i];
        if (r->pid == 0)
            return r;
        if (r->fd >= 0 && !r->is_busy &&
            (!idlest || r->since_s < idlest->since_s))
            idlest = r;
    }
    if (idlest)
        retire(idlest);
    return idlest;
}

/* A process that runs as a user must inherit nothing of ours but its end of the
 * socket. */
static _Noreturn void in_child(const struct server *s, int fd, uid_t uid)
{
    if (dup2(fd, READER_FD) < 0)
        _exit(1);
    closefrom(READER_FD + 1);
    files_reader(READER_FD, uid, s->whom != FILES_OWN);
}

static int start(struct server *s, uid_t uid, struct reader **ret,
                 struct error *err)
{
    int pair[2];
    if (s->whom == FILES_USERS && s->slurm_conf &&
        protected_uids_check(s->slurm_conf, uid, err) < 0)
        return -1;
    struct reader *r = find_place(s);
    if (!r)
        return error_set(err, ERR_LIMIT, "the files of %d users do not answer",
                         (int)READERS_MAX);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return error_sys(err, errno, "make a pair of sockets");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(pair[0]);
        in_child(s, pair[1], uid);
    }
    (void)close(pair[1]);
    if (pid < 0) {
        (void)close(pair[0]);
        return error_set(err, ERR_LIMIT, "fork: %s", strerror(errno));
    }
    *r = (struct reader){.pid = pid, .fd = pair[0], .uid = uid};
    *ret = r;
    return 0;
}

static struct reader *find(struct server *s, uid_t uid)
{
    for (size_t i = 0; i < READERS_MAX; i++)
        if (s->readers[i].pid != 0 && s->readers[i].uid == uid)
            return &s->readers[i];
    return NULL;
}

/* ---- requests -------------------------------------------------------------
 */
static bool may(const struct server *s, uid_t uid)
{
    return s->whom == FILES_ALL ||
           (s->whom == FILES_OWN ? uid == geteuid() : uid != 0);
}

static int pass_on(struct server *s, const struct files_req *req, size_t len,
                   struct error *err)
{
    if (!may(s, req->uid))
        return error_set(err, ERR_DENIED, "the files of uid %lu are not served",
                         (unsigned long)req->uid);
    reap(s);
    struct reader *r = find(s, req->uid);
    if (r && (r->is_busy || r->fd < 0))
        return error_set(err, ERR_TIMEOUT,
                         "the file system has not answered for %.0f s",
                         now() - r->since_s);
    if (!r && start(s, req->uid, &r, err) < 0)
        return -1;
    if (send(r->fd, s->packet, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        give_up(r);
        return error_set(err, ERR_BUSY, "the reader has died");
    }
    r->is_busy = true;
    r->seq = req->seq;
    r->since_s = now();
    return 0;
}

/* Returns false when the daemon has closed the socket. */
static bool from_daemon(struct server *s)
{
    struct files_req req;
    struct error err = ERROR_INIT;
    ssize_t n =
        recv(s->fd, s->packet, sizeof(s->packet), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    if (n <= 0)
        return false;
    int rc = (size_t)n <= FILES_REQ_MAX
                 ? files_req_parse(s->packet, (size_t)n, &req, &err)
                 : error_set(&err, ERR_INVAL, "not a request");
    if ((size_t)n > FILES_REQ_MAX)
        req.seq = 0;
    s->seq = req.seq;
    if (rc == 0)
        rc = pass_on(s, &req, (size_t)n, &err);
    if (rc < 0)
        refuse(s, req.seq, &err);
    return true;
}

static void from_reader(struct server *s, struct reader *r)
{
    struct files_ans a;
    struct error err = ERROR_INIT;
    ssize_t n =
        recv(r->fd, s->packet, sizeof(s->packet), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    bool is_current = r->is_busy && r->seq == s->seq;
    if (n > 0 && files_ans_parse(s->packet, (size_t)n, &a, NULL) == 0 &&
        r->is_busy && a.seq == r->seq) {
        r->is_busy = false;
        r->since_s = now();
        if (is_current)
            send_up(s, s->packet, (size_t)n);
        return;
    }
    (void)error_set(&err, ERR_BUSY, "the reader has died");
    if (is_current)
        refuse(s, r->seq, &err);
    give_up(r);
}

static void look_after(struct server *s)
{
    double at_s = now();
    reap(s);
    for (size_t i = 0; i < READERS_MAX; i++) {
        struct reader *r = &s->readers[i];
        if (r->pid == 0 || r->fd < 0)
            continue;
        if (r->is_busy && at_s - r->since_s > STUCK_S)
            give_up(r);
        else if (!r->is_busy && at_s - r->since_s > IDLE_S)
            retire(r);
    }
}

/* Returns false when the daemon has closed the socket. */
static bool turn(struct server *s)
{
    struct pollfd p[READERS_MAX + 1] = {{.fd = s->fd, .events = POLLIN}};
    for (size_t i = 0; i < READERS_MAX; i++)
        p[i + 1] = (struct pollfd){.fd = s->readers[i].fd, .events = POLLIN};
    if (poll(p, READERS_MAX + 1, LOOK_MS) > 0) {
        for (size_t i = 0; i < READERS_MAX; i++)
            if (p[i + 1].revents)
                from_reader(s, &s->readers[i]);
        if (p[0].revents && !from_daemon(s))
            return false;
    }
    look_after(s);
    return true;
}

int files_serve(int fd, enum files_whom whom, const char *slurm_conf)
{
    struct server *s = calloc(1, sizeof(*s));
    if (!s)
        return error_exit_status(ERR_NOMEM);
    s->fd = fd;
    s->whom = whom;
    s->slurm_conf = slurm_conf;
    for (size_t i = 0; i < READERS_MAX; i++)
        s->readers[i].fd = -1;
    (void)signal(SIGCHLD, SIG_DFL); /* if ignored, the children's exit could
                                     * not be observed */
    while (turn(s))
        ;
    for (size_t i = 0; i < READERS_MAX; i++)
        if (s->readers[i].pid != 0)
            give_up(&s->readers[i]);
    free(s);
    return 0;
}
