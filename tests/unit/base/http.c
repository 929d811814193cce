/* http.c - server and client against each other. */
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/unit/base/http_host.h"

enum { MAX_BODY = 100000 };

static char dir[] = "/tmp/mgpu-http.XXXXXX";
static char sock[64], url[80];
static atomic_int n_closed; /* streams whose client went away */

/* ---- the server's side ----------------------------------------------------
 */

static void on_echo(void *arg, struct http_exchange *x)
{
    char text[512];
    const char *q = http_query(x, "q"), *bearer = http_bearer(x);
    (void)arg;
    int n =
        snprintf(text, sizeof(text), "%s|%s|%s|%s|%s|%lld", http_param(x, 0),
                 http_param(x, 1), q ? q : "-", bearer ? bearer : "-",
                 http_query(x, "none") ? "?" : "-", (long long)http_uid(x));
    http_reply_text(x, 200, "text/plain", text, (size_t)n);
}

static void on_body(void *arg, struct http_exchange *x)
{
    char text[64];
    size_t len = 0;
    const char *body = http_body(x, &len);
    (void)arg;
    int n = snprintf(text, sizeof(text), "{\"len\":%zu,\"first\":\"%.1s\"}",
                     len, len > 0 ? body : "");
    http_reply_json(x, 201, text, (size_t)n);
}

static void on_stream(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_stream_start(x, "application/jsonl", NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        char line[32];
        int n = snprintf(line, sizeof(line), "line %d\n", i);
        http_stream_send(x, line, (size_t)n);
    }
    http_stream_send(x, "rest", 4);
    http_stream_end(x);
}

static void on_stream_closed(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_closed, 1);
}

static void on_tail(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_stream_start(x, "application/jsonl", on_stream_closed, NULL);
    http_stream_send(x, "hello\n", 6);
}

/* 3 MiB at once to a client that takes none of it. */
static void on_flood(void *arg, struct http_exchange *x)
{
    static char block[65536];
    (void)arg;
    http_stream_start(x, "application/jsonl", on_stream_closed, NULL);
    for (int i = 0; i < 48; i++)
        http_stream_send(x, block, sizeof(block));
}

/* More than fits, and then an end as if all were well. */
static void on_cut(void *arg, struct http_exchange *x)
{
    static char block[65536];
    (void)arg;
    memset(block, '\n', sizeof(block));
    http_stream_start(x, "application/jsonl", on_stream_closed, NULL);
    for (int i = 0; i < 48; i++)
        http_stream_send(x, block, sizeof(block));
    http_stream_end(x);
}

static struct http_exchange *silent; /* NULL once it was cut */

static void on_silent_closed(void *arg)
{
    (void)arg;
    silent = NULL;
}

static void after_silence(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    if (!silent)
        return;
    http_stream_send(silent, "late\n", 5);
    http_stream_end(silent);
    silent = NULL;
}

/* Says nothing for longer than a connection may be idle. */
static void on_silent(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    struct timeval tv = {.tv_sec = 3, .tv_usec = 500000};
    silent = x;
    http_stream_start(x, "application/jsonl", on_silent_closed, NULL);
    (void)event_base_once(h->base, -1, EV_TIMEOUT, after_silence, NULL, &tv);
}

static const struct http_route routes[] = {
    {"GET", "/v1/echo/:a/x/:b", on_echo}, {"POST", "/v1/body", on_body},
    {"GET", "/v1/fail", host_on_fail},    {"GET", "/v1/late", host_on_late},
    {"GET", "/v1/stream", on_stream},     {"GET", "/v1/tail", on_tail},
    {"GET", "/v1/silent", on_silent},     {"GET", "/v1/flood", on_flood},
    {"GET", "/v1/cut", on_cut},           {NULL, NULL, NULL},
};

static const struct http_server_conf server = {
    .routes = routes,
    .max_body_bytes = MAX_BODY,
    .request_timeout_s = 60, /* of a test that was not let run */
    .idle_timeout_s = 3,
    .max_clients = 100,
    .max_clients_per_uid = 100,
};

static bool became(atomic_int *v, int want)
{
    for (int i = 0; i < 6000 && atomic_load(v) != want; i++)
        (void)poll(NULL, 0, 10);
    return atomic_load(v) == want;
}

/* ---- tests ----------------------------------------------------------------
 */

static void test_round_trip(void)
{
    struct http_client *c = client_of(url, "sesame");
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    char want[64];

    is_int(get(c, "/v1/echo/12/x/a%20b?q=1%2C2", &b), 200, "GET answers");
    (void)snprintf(want, sizeof(want), "12|a b|1,2|sesame|-|%d", (int)getuid());
    is_str(buf_str(&b), want, "parameters, query, bearer, peer's uid");

    struct http_request post = {
        .method = "POST", .path = "/v1/body", .body = "hello", .body_len = 5};
    int status = 0;
    buf_reset(&b);
    is_int(http_client_call(c, &post, &status, &b, &err), 0, "POST answers");
    is_int(status, 201, "with the handler's status");
    is_str(buf_str(&b), "{\"len\":5,\"first\":\"h\"}", "and saw the body");
    is_int(get(c, "/v1/late", &b), 200, "a late reply arrives");
    is_str(buf_str(&b), "late", "whole");

    status = get(c, "/v1/fail", &b);
    is_int(status, 403, "an error has its status");
    is_int(http_reply_error(status, &b, &err), -1, "and is read back");
    is_int(err.code, ERR_FENCED, "by its code");
    is_str(err.msg, "job 12: \"quoted\"", "with its message");

    is_int(get(c, "/v1/nothing", &b), 404, "an unknown path");
    is_int(get(c, "/v2/echo/1/x/2", &b), 404, "another version's path");
    is_int(get(c, "/v1/echo/1/x/", &b), 404, "an empty parameter");
    is_int(get(c, "/v1/echo/1/x/%00", &b), 404, "a NUL in a parameter");
    is_int(get(c, "/v1/body", &b), 405, "the wrong method");
    is_int(get(c, "/v1/echo/1/x/2?", &b), 200, "an empty query string");
    is_int(get(c, "/v1/echo/1/x/2?&q=1", &b), 400, "one that is none");
    is_int(get(c, "/v1/echo/1/x/2?q&r=1", &b), 400, "a name without a value");
    buf_clear(&b);
    http_client_destroy(c);
}

static void test_big_body(void)
{
    static char big[MAX_BODY + 2];
    struct http_client *c = client_of(url, NULL);
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;

    memset(big, 'x', sizeof(big));
    for (size_t n = MAX_BODY - 1; n <= MAX_BODY + 1; n++) {
        struct http_request req = {
            .method = "POST", .path = "/v1/body", .body = big, .body_len = n};
        int status = 0;
        buf_reset(&b);
        int rc = http_client_call(c, &req, &status, &b, &err);
        ok(rc == 0 && status == (n <= MAX_BODY ? 201 : 413),
           "a body of max%+d: %d", (int)n - MAX_BODY, status);
        if (status == 413) {
            (void)http_reply_error(status, &b, &err);
            is_int(err.code, ERR_LIMIT, "413 is a limit");
        }
    }
    buf_clear(&b);
    http_client_destroy(c);
}

struct seen {
    int n, stop_at;
    char last[64];
};

static int on_line(void *arg, const char *text, size_t len, struct error *err)
{
    struct seen *s = arg;
    s->n++;
    (void)snprintf(s->last, sizeof(s->last), "%.*s", (int)len, text);
    if (s->n == s->stop_at)
        return error_set(err, ERR_STATE, "enough");
    return 0;
}

static void test_stream(void)
{
    struct http_client *c = client_of(url, NULL);
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    struct seen s = {.n = 0};
    int status = 0;

    ok(http_client_stream(c, "/v1/stream", on_line, &s, &status, &b, &err) == 0,
       "a stream ends well");
    is_int(s.n, 1001, "with every line");
    is_str(s.last, "rest", "and the rest after the last newline");

    s = (struct seen){.n = 0};
    ok(http_client_stream(c, "/v1/silent", on_line, &s, &status, &b, &err) ==
               0 &&
           s.n == 1,
       "one may be silent for longer than a connection may be idle");

    s = (struct seen){.stop_at = 1};
    ok(http_client_stream(c, "/v1/tail", on_line, &s, &status, &b, &err) < 0 &&
           err.code == ERR_STATE,
       "the reader can leave an endless one");
    ok(became(&n_closed, 1), "and the server is told");

    s = (struct seen){.n = 0};
    ok(http_client_stream(c, "/v1/fail", on_line, &s, &status, &b, &err) == 0 &&
           status == 403 && s.n == 0 && b.len > 0,
       "an error comes instead of a stream");
    ok(http_client_stream(c, "/v1/cut", on_line, &s, &status, &b, &err) < 0 &&
           err.code == ERR_UNAVAIL && s.n < 48 * 65536,
       "a stream that was cut is no success: %s", err.msg);
    is_int(atomic_load(&n_closed), 1, "and closes nothing twice");
    buf_clear(&b);
    http_client_destroy(c);

    int fd = dial_unix(sock);
    char last;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    say(fd, "GET /v1/silent HTTP/1.1\r\nHost: x\r\n\r\n");
    ok(strstr(hear(fd, "\r\n0\r\n\r\n"), "late") && poll(&p, 1, 60000) == 1 &&
           read(fd, &last, 1) == 0,
       "after it the connection may be idle no longer than before");
    (void)close(fd);
    fd = dial_unix(sock);
    say(fd, "GET /v1/flood HTTP/1.1\r\nHost: x\r\n\r\n");
    ok(became(&n_closed, 2), "S05: a reader that never reads is dropped");
    (void)close(fd);
}

/* Less than the millisecond that curl counts in is not "no limit". */
static void test_short(void)
{
    struct http_client_conf conf = {
        .url = url, .connect_timeout_s = 20, .timeout_s = 0.0004};
    struct http_client *c = NULL;
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    struct seen s = {.n = 0};
    int status = 0;

    ok(http_client_create(&conf, &c, &err) == 0, "a client in a hurry");
    ok(http_client_stream(c, "/v1/silent", on_line, &s, &status, &b, &err) <
               0 &&
           err.code == ERR_TIMEOUT,
       "waits no longer than it said: %s", err.msg);
    buf_clear(&b);
    http_client_destroy(c);
}

static void *hear_and_hang_up(void *arg)
{
    const int *listener = arg;
    int fd = accept(*listener, NULL, NULL);
    (void)hear(fd, "\r\n\r\n");
    (void)close(fd);
    return NULL;
}

static int post_once(struct http_client *c)
{
    struct http_request req = {.method = "POST", .path = "/v1/body"};
    struct error err = ERROR_INIT;
    struct buf b = BUF_INIT;
    int status = 0;
    int rc = http_client_call(c, &req, &status, &b, &err);
    tap_diag("%s", err.msg);
    buf_clear(&b);
    return rc < 0 ? -(int)err.code : status;
}

static void test_doubt(void)
{
    struct http_client_conf conf = {
        .url = url, .connect_timeout_s = 0.01, .timeout_s = 60};
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct http_client *c = NULL;
    struct error err = ERROR_INIT;
    pthread_t thread;

    ok(http_client_create(&conf, &c, &err) == 0, "a client");
    is_int(post_once(c), -(int)ERR_UNAVAIL, "nobody listens");
    ok(!http_client_in_doubt(c), "then nothing was sent");

    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", sock);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool hears = bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
                 listen(fd, 1) == 0 &&
                 pthread_create(&thread, NULL, hear_and_hang_up, &fd) == 0;
    ok(hears, "a server that hears and hangs up");
    is_int(post_once(c), -(int)ERR_UNAVAIL, "no reply comes");
    if (hears)
        (void)pthread_join(thread, NULL);
    ok(http_client_in_doubt(c), "the request may have been carried out");
    http_client_destroy(c);
    (void)close(fd);
    (void)unlink(sock);
}

static void test_urls(void)
{
    static const char *const bad[] = {"",        "unix:",   "unix:rel",
                                      "ftp://x", "http://", "http://h:1/path"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct http_client_conf conf = {.url = bad[i]};
        struct http_client *c = NULL;
        struct error err;
        ok(http_client_create(&conf, &c, &err) < 0 && err.code == ERR_INVAL,
           "'%s' is no URL", bad[i]);
    }
}

static bool listens_at(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 &&
           listen(fd, 8) == 0;
}

/* A daemon is killed while a child of its has not begun its own program. */
static void test_orphan(void)
{
    struct error err = ERROR_INIT;
    int status = -1, wait_for[2];
    char byte;
    if (pipe(wait_for) < 0)
        exit(1);
    pid_t daemon = fork();
    if (daemon == 0) {
        if (!listens_at(sock))
            _exit(1);
        pid_t child = fork();
        if (child == 0) { /* holds the socket until the test says so */
            (void)close(wait_for[1]);
            (void)!read(wait_for[0], &byte, 1);
            (void)poll(NULL, 0, 100);
        }
        _exit(child < 0);
    }
    (void)close(wait_for[0]);
    ok(waitpid(daemon, &status, 0) == daemon && status == 0,
       "a daemon leaves a child behind");
    (void)close(wait_for[1]);
    ok(http_server_may_listen_unix(sock, &err) == 0,
       "the next one waits for its socket: %s", err.msg);
    (void)unlink(sock);
}

static void test_other(void)
{
    struct error err = ERROR_INIT;
    char pid[32];
    (void)snprintf(pid, sizeof(pid), "process %ld", (long)getpid());
    ok(http_server_may_listen_unix(sock, &err) < 0 && err.code == ERR_STATE &&
           strstr(err.msg, pid),
       "a daemon that lives keeps its socket: %s", err.msg);
}

int main(void)
{
    struct host h;
    (void)signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(sock, sizeof(sock), "%s/sock", dir);
    (void)snprintf(url, sizeof(url), "unix:%s", sock);

    test_urls();
    test_orphan();
    int before = n_fds();
    test_doubt();
    host_start(&h, &server, sock, NULL);
    test_other();
    test_round_trip();
    test_big_body();
    test_stream();
    test_short();
    host_stop(&h);
    is_int(n_fds(), before, "no descriptor is left open");
    (void)rmdir(dir);
    return tap_done();
}
