/* as_user.c - start a process that acts as a user, and bound its time; see
 * as_user.h.
 *
 * The request goes to the process's standard input and the answer comes from
 * its standard output, one JSON object each. A process that does not end in
 * time is killed. One that is blocked in the kernel (NFS) does not even die
 * then, so it is remembered, and requests of its user fail with BUSY until it
 * has ended.
 *
 * Each request holds one of the few threads that serve all users, and a user
 * can cause a hanging file system (and can stop a process that runs under his
 * uid). So one user has only some of the threads; a user whose request was late
 * waits a while, and then has one thread until a request succeeds. */
#include "slurm/as_user/as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "jobs/base/spawn_program.h"

/* A loaded NFS server takes seconds; a command thread is blocked that long. */
static const double LIMIT_S = 10;
enum { STUCK_MAX = 64, ANSWER_MAX = 8192 };
/* Threads (helper_rpc.c) that one user may hold at once. */
enum { AT_ONCE = 3, FLIGHTS_MAX = 16, LATE_MAX = 64 };
/* A request that takes longer than SIGN_S suggests a hang; REST_S is the pause
 * after a late one. */
static const double SIGN_S = 1, REST_S = 20;

/* Processes that did not end in time. */
static pthread_mutex_t stuck_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    pid_t pid;
    uid_t uid;
} stuck[STUCK_MAX];
static size_t n_stuck;

static bool has_ended(pid_t pid)
{
    pid_t got;
    do
        got = waitpid(pid, NULL, WNOHANG);
    while (got < 0 && errno == EINTR);
    return got != 0;
}

static int check_stuck(uid_t uid, struct error *err)
{
    bool is = false;
    (void)pthread_mutex_lock(&stuck_lock);
    for (size_t i = 0; i < n_stuck;) {
        if (has_ended(stuck[i].pid)) {
            stuck[i] = stuck[--n_stuck];
        } else {
            is = is || stuck[i].uid == uid;
            i++;
        }
    }
    is = is || n_stuck == STUCK_MAX;
    (void)pthread_mutex_unlock(&stuck_lock);
    return is ? error_set(err, ERR_BUSY,
                          "the file system of user %lu does not answer",
                          (unsigned long)uid)
              : 0;
}

static void remember_stuck(pid_t pid, uid_t uid)
{
    (void)pthread_mutex_lock(&stuck_lock);
    if (n_stuck < STUCK_MAX) {
        stuck[n_stuck].pid = pid;
        stuck[n_stuck++].uid = uid;
    }
    (void)pthread_mutex_unlock(&stuck_lock);
}

/* ---- limit per user ------------------------------------------------------ */
static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    bool is_used;
    uid_t uid;
    double since_s;
} flights[FLIGHTS_MAX];
static struct late {
    uid_t uid;
    double until_s;
} late[LATE_MAX];
static size_t n_late;

static struct late *find_late(uid_t uid)
{
    for (size_t i = 0; i < n_late; i++)
        if (late[i].uid == uid)
            return &late[i];
    return NULL;
}

/* Takes a place among the requests in flight; -1: not now; -2: the user's
 * requests hang, fail at once. */
static int take_turn(uid_t uid, double now_s)
{
    const struct late *l = find_late(uid);
    int place = -1;
    int n = 0;
    bool is_slow = l != NULL && now_s < l->until_s;
    for (int i = 0; i < FLIGHTS_MAX; i++) {
        if (!flights[i].is_used) {
            place = i;
        } else if (flights[i].uid == uid) {
            n++;
            is_slow = is_slow || l || now_s - flights[i].since_s > SIGN_S;
        }
    }
    if (is_slow)
        return -2;
    if (n >= AT_ONCE || place < 0)
        return -1;
    flights[place].is_used = true;
    flights[place].uid = uid;
    flights[place].since_s = now_s;
    return place;
}

static int begin_turn(uid_t uid, int *ret, struct error *err)
{
    do {
        (void)pthread_mutex_lock(&turn_lock);
        *ret = take_turn(uid, clock_real.now_s(&clock_real));
        (void)pthread_mutex_unlock(&turn_lock);
        if (*ret == -1)
            (void)poll(NULL, 0, 2);
    } while (*ret == -1);
    return *ret >= 0 ? 0
                     : error_set(err, ERR_BUSY,
                                 "the file system of user %lu does not answer",
                                 (unsigned long)uid);
}

static void end_turn(int place, bool is_late)
{
    double until_s = clock_real.now_s(&clock_real) + REST_S;
    (void)pthread_mutex_lock(&turn_lock);
    uid_t uid = flights[place].uid;
    struct late *l = find_late(uid);
    flights[place].is_used = false;
    if (is_late && l == NULL && n_late < LATE_MAX)
        l = &late[n_late++];
    if (is_late && l != NULL)
        *l = (struct late){.uid = uid, .until_s = until_s};
    else if (l != NULL)
        *l = late[--n_late];
    (void)pthread_mutex_unlock(&turn_lock);
}

/* ---- the process --------------------------------------------------------- */
/* Returns an errno, as posix_spawn(3). */
static int spawn(uid_t uid, int fd, pid_t *ret)
{
    char number[24];
    const char *const argv[] = {"mgpu-slurm-helper", "--as-user", number, NULL};
    /* Valid even after the file was replaced on disk. */
    const struct spawn_program self = {.program = "/proc/self/exe",
                                       .argv = argv,
                                       .fds = {fd, fd, SPAWN_SAME},
                                       .n_fds = 3};
    (void)snprintf(number, sizeof(number), "%lu", (unsigned long)uid);
    return spawn_program(&self, ret);
}

static double left_s(double until_s)
{
    double left = until_s - clock_real.now_s(&clock_real);
    return left > 0 ? left : 0;
}

/* Sends all of text, then reads to the end. The socket does not block. */
static int talk(int fd, const char *text, size_t len, struct buf *answer,
                struct error *err)
{
    double until_s = clock_real.now_s(&clock_real) + LIMIT_S;
    char part[2048];
    size_t at = 0;
    while (answer->len < ANSWER_MAX) {
        struct pollfd p = {
            .fd = fd, .events = (short)(POLLIN | (at < len ? POLLOUT : 0))};
        int n = poll(&p, 1, (int)(left_s(until_s) * 1e3) + 1);
        if (n < 0 && errno != EINTR)
            return error_sys(err, errno, "wait for input");
        if (n == 0 || left_s(until_s) <= 0)
            return error_set(err, ERR_TIMEOUT,
                             "no answer from the file system in %g s", LIMIT_S);
        if (n > 0 && (p.revents & POLLOUT)) {
            ssize_t sent = send(fd, text + at, len - at, MSG_NOSIGNAL);
            if (sent > 0)
                at += (size_t)sent;
            if (at == len)
                (void)shutdown(fd, SHUT_WR);
        }
        if (n > 0 && (p.revents & (POLLIN | POLLHUP))) {
            ssize_t got = recv(fd, part, sizeof(part), 0);
            if (got == 0 || (got < 0 && errno == ECONNRESET))
                return 0; /* it has exited, perhaps without reading all */
            if (got < 0 && errno != EAGAIN && errno != EINTR)
                return error_sys(err, errno, "the file process");
            if (got > 0 && buf_add(answer, part, (size_t)got, err) < 0)
                return -1;
        }
    }
    return error_set(err, ERR_INTERNAL,
                     "the file process's answer is too long");
}

static int run(uid_t uid, const char *text, size_t len, struct buf *answer,
               bool *ret_late, struct error *err)
{
    int fds[2];
    pid_t pid;
    *ret_late = false;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
        return error_sys(err, errno, "make a pair of sockets");
    bool is_ready = fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0;
    int rc = is_ready ? spawn(uid, fds[1], &pid) : errno;
    (void)close(fds[1]);
    if (!is_ready || rc != 0) {
        (void)close(fds[0]);
        return error_sys(err, rc, "start a process for user %lu",
                         (unsigned long)uid);
    }
    rc = talk(fds[0], text, len, answer, err);
    *ret_late = rc < 0 && err->code == ERR_TIMEOUT;
    (void)close(fds[0]);
    (void)kill(pid, SIGKILL); /* it has answered completely */
    /* A killed process ends in a moment, unless it is blocked in the kernel. */
    for (int i = 0; i < 200 && !has_ended(pid); i++) {
        if (i == 199)
            remember_stuck(pid, uid);
        (void)poll(NULL, 0, 1);
    }
    return rc;
}

static int run_in_turn(uid_t uid, const char *text, size_t len,
                       struct buf *answer, struct error *err)
{
    int place;
    bool is_late;
    if (check_stuck(uid, err) < 0 || begin_turn(uid, &place, err) < 0)
        return -1;
    int rc = run(uid, text, len, answer, &is_late, err);
    end_turn(place, is_late);
    return rc;
}

/* The answer's object, or its error. */
static json_t *ask(uid_t uid, json_t *request, struct error *err)
{
    struct buf answer = BUF_INIT;
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    if (text == NULL) {
        (void)error_set(err, ERR_NOMEM, "out of memory");
        return NULL;
    }
    json_t *o = NULL;
    if (run_in_turn(uid, text, strlen(text), &answer, err) == 0) {
        o = json_loadb(buf_str(&answer), answer.len, 0, NULL);
        const char *code = json_string_value(json_object_get(o, "code"));
        const char *why = json_string_value(json_object_get(o, "why"));
        if (!json_is_object(o))
            (void)error_set(err, ERR_INTERNAL, "the file process died");
        else if (code != NULL)
            (void)error_set(err, error_from_word(code), "%s", why ? why : "");
        if (!json_is_object(o) || code != NULL) {
            json_decref(o);
            o = NULL;
        }
    }
    buf_clear(&answer);
    free(text);
    return o;
}

static int text_of(const json_t *o, const char *key, char *ret, size_t cap)
{
    const char *s = json_string_value(json_object_get(o, key));
    if (s == NULL || strlen(s) >= cap)
        return -1;
    memcpy(ret, s, strlen(s) + 1);
    return 0;
}

int as_user_write(uid_t uid, const char *dir, const char *launch,
                  const char *batch, const char *submission,
                  struct as_user *ret, struct error *err)
{
    struct as_user u = {.gid = (gid_t)-1};
    json_t *o = ask(uid,
                    json_pack("{s:s,s:s,s:s,s:s}", "dir", dir, "launch", launch,
                              "batch", batch, "submission", submission),
                    err);
    if (o == NULL)
        return -1;
    json_int_t gid = json_integer_value(json_object_get(o, "gid"));
    int rc = text_of(o, "name", u.name, sizeof(u.name)) < 0 ||
                     text_of(o, "home", u.home, sizeof(u.home)) < 0 ||
                     text_of(o, "shell", u.shell, sizeof(u.shell)) < 0
                 ? error_set(err, ERR_INTERNAL, "user %lu has no usable name",
                             (unsigned long)uid)
                 : 0;
    json_decref(o);
    if (rc < 0)
        return -1;
    u.gid = (gid_t)gid;
    *ret = u;
    return 0;
}

int as_user_read_exit(uid_t uid, const char *dir, struct attempt_exit *ret,
                      struct error *err)
{
    json_t *o = ask(uid, json_pack("{s:s}", "dir", dir), err);
    if (o == NULL)
        return -1;
    struct attempt_exit x = {
        .code = (int32_t)json_integer_value(json_object_get(o, "exit")),
        .signal = (int32_t)json_integer_value(json_object_get(o, "signal")),
        .when_s = json_number_value(json_object_get(o, "when")),
        .slurm_id =
            (uint32_t)json_integer_value(json_object_get(o, "slurm_id")),
        .is_ending = json_is_true(json_object_get(o, "is_ending")),
        .is_other = json_is_true(json_object_get(o, "is_other"))};
    int rc = text_of(o, "told", x.told, sizeof(x.told)) < 0
                 ? error_set(err, ERR_INTERNAL,
                             "the file process's answer has no 'told'")
                 : 0;
    json_decref(o);
    if (rc == 0)
        *ret = x;
    return rc;
}
