/* http_whatif.c - see http_whatif.h.
 *
 * A run is over when its process has ended and both of its pipes have. */
#include "scheduler/web/http_whatif.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/spawn_program.h"
#include "jobs/http/http_server.h"

/* mgpu-sim takes no longer setting; what it says beyond is of no use. */
enum {
    PATH_CAP = 4096,
    SETTING_CAP = 500,
    TIME_CAP = 64,
    SAID_BYTES = 16 << 10
};

struct pipe_end {
    struct event *ev; /* NULL: it has ended */
    int fd;
    struct buf text;
};

struct web_whatif {
    struct event_base *base;
    struct event *child, *limit;
    char program[PATH_CAP];
    double limit_s;
    size_t max_bytes;
    struct http_exchange *x; /* of the run; NULL: there is none */
    pid_t pid;               /* 0: it has ended */
    int status;              /* of waitpid(2) */
    struct pipe_end out, said;
};

/* ---- the end of a run ------------------------------------------------------
 */

static void pipe_close(struct pipe_end *p)
{
    if (p->ev)
        event_free(p->ev);
    p->ev = NULL;
    if (p->fd >= 0)
        (void)close(p->fd);
    p->fd = -1;
}

/* Forgets the run. Returns its exchange, which the caller answers. */
static struct http_exchange *take_exchange(struct web_whatif *w)
{
    struct http_exchange *x = w->x;
    if (w->pid > 0) {
        (void)kill(-w->pid, SIGKILL);
        while (waitpid(w->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    w->pid = 0;
    w->x = NULL;
    (void)event_del(w->limit);
    pipe_close(&w->out);
    pipe_close(&w->said);
    buf_clear(&w->out.text);
    buf_clear(&w->said.text);
    return x;
}

static void fail(struct web_whatif *w, const struct error *err)
{
    struct http_exchange *x = take_exchange(w);
    if (x)
        http_reply_err(x, err);
}

/* What is no UTF-8, such as a character that was cut, is '?'. */
static json_t *text_json(struct buf *b)
{
    json_t *text = json_stringn(buf_str(b), b->len);
    for (size_t i = 0; !text && i < b->len; i++)
        if ((unsigned char)b->data[i] >= 0x80)
            b->data[i] = '?';
    return text ? text : json_stringn(buf_str(b), b->len);
}

static void reply_figures(struct web_whatif *w)
{
    struct error err = ERROR_INIT;
    if (!WIFEXITED(w->status)) {
        (void)error_set(&err, ERR_EXTERN, "mgpu-sim died of signal %d",
                        WTERMSIG(w->status));
        fail(w, &err);
        return;
    }
    json_t *figures =
        json_loadb(buf_str(&w->out.text), w->out.text.len, 0, NULL);
    if (!figures && WEXITSTATUS(w->status) == 0) {
        (void)error_set(&err, ERR_EXTERN, "mgpu-sim printed no figures");
        fail(w, &err);
        return;
    }
    json_t *o =
        json_pack("{s:s, s:i, s:o, s:o}", "schema", "mgpu.whatif/1", "status",
                  WEXITSTATUS(w->status), "said", text_json(&w->said.text),
                  "figures", figures ? figures : json_null());
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (!text) {
        (void)error_set(&err, ERR_NOMEM, "out of memory");
        fail(w, &err);
        return;
    }
    http_reply_json(take_exchange(w), 200, text, strlen(text));
    free(text);
}

static void end_if_over(struct web_whatif *w)
{
    if (w->x && w->pid == 0 && !w->out.ev && !w->said.ev)
        reply_figures(w);
}

/* ---- what the loop says ----------------------------------------------------
 */

static void on_child(evutil_socket_t sig, short what, void *arg)
{
    struct web_whatif *w = arg;
    (void)sig;
    (void)what;
    if (w->pid > 0 && waitpid(w->pid, &w->status, WNOHANG) == w->pid) {
        w->pid = 0;
        end_if_over(w);
    }
}

static void on_limit(evutil_socket_t fd, short what, void *arg)
{
    struct web_whatif *w = arg;
    struct error err;
    (void)fd;
    (void)what;
    (void)error_set(&err, ERR_TIMEOUT,
                    "mgpu-sim took longer than %.0f s and was ended: choose "
                    "fewer jobs",
                    w->limit_s);
    fail(w, &err);
}

static void on_left(void *arg)
{
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "the client left");
    fail(arg, &err);
}

static void on_text(evutil_socket_t fd, short what, void *arg)
{
    struct web_whatif *w = arg;
    struct pipe_end *p = fd == w->out.fd ? &w->out : &w->said;
    char piece[16 << 10];
    struct error err;
    (void)what;
    ssize_t n = read(fd, piece, sizeof(piece));
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (n <= 0) {
        pipe_close(p);
        end_if_over(w);
        return;
    }
    size_t len = (size_t)n, room = SAID_BYTES - w->said.text.len;
    if (p == &w->said && len > room)
        len = room;
    if (p == &w->out && p->text.len + len > w->max_bytes) {
        (void)error_set(&err, ERR_EXTERN,
                        "mgpu-sim printed more than %zu bytes and was ended",
                        w->max_bytes);
        fail(w, &err);
    } else if (buf_add(&p->text, piece, len, &err) < 0) {
        fail(w, &err);
    }
}

/* ---- the beginning of a run ------------------------------------------------
 */

/* The other end is the caller's to close. */
static int pipe_open(struct web_whatif *w, struct pipe_end *p, int *ret_other,
                     struct error *err)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return error_sys(err, errno, "cannot make a pipe");
    p->fd = fds[0];
    *ret_other = fds[1];
    p->ev = fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0
                ? event_new(w->base, fds[0], EV_READ | EV_PERSIST, on_text, w)
                : NULL;
    return p->ev && event_add(p->ev, NULL) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "pipe");
}

static int start(struct web_whatif *w, const char *const *argv,
                 struct error *err)
{
    int out = -1, said = -1, rc = pipe_open(w, &w->out, &out, err);
    if (rc == 0)
        rc = pipe_open(w, &w->said, &said, err);
    if (rc == 0) {
        const struct spawn_program p = {.program = w->program,
                                        .argv = argv,
                                        .dir = "/",
                                        .fds = {SPAWN_NULL, out, said},
                                        .n_fds = 3,
                                        .where = SPAWN_GROUP};
        rc = spawn_program(&p, &w->pid);
        if (rc != 0) {
            w->pid = 0;
            rc = error_sys(err, rc, "start '%s'", w->program);
        }
    }
    if (out >= 0)
        (void)close(out);
    if (said >= 0)
        (void)close(said);
    return rc;
}

/* json: {"policies":[A,B],"since":TIME}; ret borrows from it. since NULL: none
 */
static int read_request(json_t *json, const char *policies[2],
                        const char **ret_since, struct error *err)
{
    json_error_t why = {.text = ""};
    *ret_since = NULL;
    if (!json)
        return error_set(err, ERR_INVAL, "the request is no JSON");
    if (json_unpack_ex(json, &why, JSON_STRICT, "{s:[s,s],s?s}", "policies",
                       &policies[0], &policies[1], "since", ret_since) < 0)
        return error_set(err, ERR_INVAL,
                         "expected {\"policies\":[A,B],\"since\":TIME}: %s",
                         why.text);
    for (int i = 0; i < 2; i++)
        if (!*policies[i] || strlen(policies[i]) >= SETTING_CAP)
            return error_set(err, ERR_INVAL,
                             "the setting on the %s has no name of a policy, "
                             "or is longer than %d bytes",
                             i == 0 ? "left" : "right", SETTING_CAP - 1);
    return *ret_since && strlen(*ret_since) >= TIME_CAP
               ? error_set(err, ERR_INVAL, "since is longer than a time")
               : 0;
}

static int run(struct web_whatif *w, const char *state_dir, json_t *json,
               struct error *err)
{
    char from[PATH_CAP + 16], left[SETTING_CAP + 16], right[SETTING_CAP + 16];
    char after[TIME_CAP + 16];
    const char *policies[2], *since;
    if (read_request(json, policies, &since, err) < 0)
        return -1;
    (void)snprintf(from, sizeof(from), "--from-db=%s", state_dir);
    (void)snprintf(left, sizeof(left), "--policy=%s", policies[0]);
    (void)snprintf(right, sizeof(right), "--policy=%s", policies[1]);
    (void)snprintf(after, sizeof(after), "--since=%s", since ? since : "");
    const char *const argv[] = {"mgpu-sim", "--json=-",           from, left,
                                right,      since ? after : NULL, NULL};
    const struct timeval tv = {
        .tv_sec = (time_t)w->limit_s,
        .tv_usec =
            (suseconds_t)(1e6 * (w->limit_s - (double)(time_t)w->limit_s))};
    if (start(w, argv, err) < 0)
        return -1;
    return event_add(w->limit, &tv) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "out of memory");
}

void web_whatif_run(struct web_whatif *w, const char *state_dir,
                    struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    size_t len = 0;
    const char *body = http_body(x, &len);
    if (w->x) {
        (void)error_set(&err, ERR_STATE,
                        "a simulation runs already: it ends when its page is "
                        "left");
        http_reply_err(x, &err);
        return;
    }
    int rc = web_whatif_check(w, state_dir, &err);
    json_t *json =
        rc == 0 ? json_loadb(body, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    w->x = x;
    if (rc == 0)
        rc = run(w, state_dir, json, &err);
    json_decref(json);
    if (rc < 0)
        fail(w, &err);
    else
        http_watch_left(x, on_left, w);
}

/* ---- the whole -------------------------------------------------------------
 */

int web_whatif_check(const struct web_whatif *w, const char *state_dir,
                     struct error *err)
{
    char db[PATH_CAP];
    if (access(w->program, X_OK) < 0)
        return error_set(err, ERR_STATE,
                         "mgpu-sim is not beside mgpu-web ('%.120s': %s)",
                         w->program, strerror(errno));
    if (state_dir[0] != '/')
        return error_set(err, ERR_STATE,
                         "mgpu-web does not know where the daemon has its "
                         "history: it needs the daemon's unix socket, and the "
                         "daemon when it starts");
    int n = snprintf(db, sizeof(db), "%s/state.db", state_dir);
    if (n < 0 || (size_t)n >= sizeof(db) || access(db, R_OK) < 0)
        return error_set(err, ERR_STATE,
                         "you cannot read the history of the daemon "
                         "('%.120s': %s)",
                         db, strerror(errno));
    return 0;
}

/* Beside this program. "": it cannot tell where it is. */
static void find_program(char ret[PATH_CAP])
{
    static const char name[] = "mgpu-sim";
    ssize_t n = readlink("/proc/self/exe", ret, PATH_CAP - sizeof(name));
    ret[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(ret, '/');
    if (slash)
        memcpy(slash + 1, name, sizeof(name));
}

int web_whatif_create(struct event_base *base,
                      const struct web_whatif_conf *conf,
                      struct web_whatif **ret, struct error *err)
{
    struct web_whatif *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "what-if");
    w->base = base;
    w->limit_s = conf->limit_s;
    w->max_bytes = conf->max_bytes;
    w->out.fd = w->said.fd = -1;
    buf_init(&w->out.text);
    buf_init(&w->said.text);
    if (conf->program)
        (void)snprintf(w->program, sizeof(w->program), "%s", conf->program);
    else
        find_program(w->program);
    w->limit = evtimer_new(base, on_limit, w);
    w->child = evsignal_new(base, SIGCHLD, on_child, w);
    if (!w->limit || !w->child || event_add(w->child, NULL) < 0) {
        web_whatif_destroy(w);
        return error_set(err, ERR_NOMEM, "what-if");
    }
    *ret = w;
    return 0;
}

void web_whatif_stop(struct web_whatif *w)
{
    struct error err;
    (void)error_set(&err, ERR_STATE, "the simulation was stopped");
    fail(w, &err);
}

void web_whatif_destroy(struct web_whatif *w)
{
    if (!w)
        return;
    if (w->limit)
        web_whatif_stop(w);
    if (w->child)
        event_free(w->child);
    if (w->limit)
        event_free(w->limit);
    buf_clear(&w->out.text);
    buf_clear(&w->said.text);
    free(w);
}
