/* http_tcp.c - the server at a port: where it listens, who is said to call,
 * and the limits for those whom nobody vouches for. */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>

#include "jobs/http/http_internal.h"
#include "tests/unit/base/http_host.h"

enum { CLIENTS = 16, PER_ONE = 6, TCP_AT_MOST = 14 };

static char sock[64];

static void on_who(void *arg, struct http_exchange *x)
{
    char text[128];
    (void)arg;
    int n = snprintf(text, sizeof(text), "%lld %s|", (long long)http_uid(x),
                     http_peer(x));
    http_reply_text(x, 200, "text/plain", text, (size_t)n);
}

/* As if it had shown who it is. */
static void on_me(void *arg, struct http_exchange *x)
{
    struct error err;
    if (http_set_uid(x, getuid(), &err) < 0)
        http_reply_err(x, &err);
    else
        on_who(arg, x);
}

static const struct http_route routes[] = {
    {"GET", "/who", on_who}, {"GET", "/me", on_me}, {NULL, NULL, NULL}};

static const struct http_server_conf server = {
    .routes = routes,
    .max_body_bytes = 1000,
    .request_timeout_s = 60, /* of a test that was not let run */
    .idle_timeout_s = 60,
    .max_clients = CLIENTS,
    .max_clients_per_uid = PER_ONE,
};

/* From one loopback address; 127.0.0.2 is another machine, as it were. */
static int dial(int port, const char *from)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)inet_pton(AF_INET, from, &a.sin_addr);
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("bind %s: %s", from, strerror(errno));
    a.sin_port = htons((uint16_t)port);
    (void)inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("connect: %s", strerror(errno));
    return fd;
}

static const char *ask(int fd)
{
    say(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n");
    return hear(fd, "|");
}

static void answers(const char *url, const char *want, const char *what)
{
    struct http_client *c = client_of(url, NULL);
    struct buf b = BUF_INIT;
    (void)get(c, "/who", &b);
    is_str(buf_str(&b), want, what);
    buf_clear(&b);
    http_client_destroy(c);
}

/* ---- tests ----------------------------------------------------------------
 */

static void refused(const char *listen, enum err_code code, const char *why)
{
    struct host h;
    host_start(&h, &server, NULL, listen);
    ok(h.rc < 0 && h.err.code == code && strstr(h.err.msg, why), "'%s': %s",
       listen, h.err.msg);
    host_stop(&h);
}

static void test_refused(void)
{
    static const char *const bad[] = {
        "",           "host",     "host:",     ":80",     "host:x",
        "host:65536", "host:-1",  "[::1]",     "[::1:80", "::1:80",
        "[]:80",      "host:80 ", "host:8080x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refused(bad[i], ERR_CONFIG, "expected HOST:PORT");
    refused("192.0.2.77:0", ERR_CONFIG, "no address of this machine");
    refused("no-such-host.invalid:0", ERR_CONFIG, "listen at");
}

static void test_where(void)
{
    static const struct {
        const char *listen, *host, *want;
    } cases[] = {
        {"127.0.0.1:0", "127.0.0.1", "-1 127.0.0.1|"},
        {"localhost:0", "localhost", NULL},
        {"*:0", "127.0.0.1", "-1 127.0.0.1|"},
        {"[::1]:0", "[::1]", "-1 ::1|"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct host h;
        char url[64];
        host_start(&h, &server, NULL, cases[i].listen);
        /* A machine without IPv6 has no [::1], and the server says so. */
        if (h.rc < 0 && h.err.code == ERR_CONFIG && cases[i].listen[0] == '[') {
            ok(strstr(h.err.msg, "no address"), "no IPv6: %s", h.err.msg);
            host_stop(&h);
            continue;
        }
        ok(h.rc == 0 && h.port > 0, "listens at %s: %d", cases[i].listen,
           h.port);
        (void)snprintf(url, sizeof(url), "http://%s:%d", cases[i].host, h.port);
        if (cases[i].want)
            answers(url, cases[i].want,
                    "nobody says who calls, but from where");
        host_stop(&h);
    }
}

static void test_again(void)
{
    struct host h, second;
    char where[32], url[96];
    host_start(&h, &server, NULL, "127.0.0.1:0");
    (void)snprintf(where, sizeof(where), "127.0.0.1:%d", h.port);
    (void)snprintf(url, sizeof(url), "http://%s", where);
    refused(where, ERR_STATE, "in use");
    /* The server ends first: its side of the connection lingers. */
    int fd = dial(h.port, "127.0.0.1");
    (void)ask(fd);
    host_stop(&h);
    host_start(&second, &server, sock, where);
    is_int(second.rc, 0, "a restarted server has its port again");
    answers(url, "-1 127.0.0.1|", "and answers there");
    (void)snprintf(url, sizeof(url), "unix:%s", sock);
    (void)snprintf(where, sizeof(where), "%lld |", (long long)getuid());
    answers(url, where, "and over its other socket knows who calls");
    (void)close(fd);
    host_stop(&second);
}

static int local_port(int fd)
{
    struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
    socklen_t len = sizeof(a);
    (void)getsockname(fd, (struct sockaddr *)&a, &len);
    return a.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)&a)->sin_port)
                                  : 0;
}

/* What the daemon starts must not hold its port or its clients. */
static void test_cloexec(struct host *h)
{
    int fd = dial(h->port, "127.0.0.1"), n = 0, n_open = 0;
    (void)ask(fd);
    DIR *d = opendir("/proc/self/fd");
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        int k = (int)strtol(e->d_name, NULL, 10);
        if (e->d_name[0] == '.' || local_port(k) != h->port)
            continue;
        n++;
        n_open += (fcntl(k, F_GETFD) & FD_CLOEXEC) == 0;
    }
    if (d)
        (void)closedir(d);
    ok(n >= 2 && n_open == 0, "%d descriptors of the server, %d left open", n,
       n_open);
    (void)close(fd);
}

static void test_slow(void)
{
    struct http_server_conf strict = server;
    struct host h;
    strict.request_timeout_s = 0.3;
    host_start(&h, &strict, NULL, "127.0.0.1:0");
    int fd = dial(h.port, "127.0.0.1");
    bool is_cut = say_slowly(fd, "GET /who HTTP/1.1\r\nHost: x\r\nX: ");
    ok(is_cut && strstr(hear(fd, NULL), " 408 "), "a slow request is cut");
    (void)close(fd);
    fd = dial(h.port, "127.0.0.1");
    ok(strstr(hear(fd, NULL), " 408 ") != NULL, "a silent connection is cut");
    (void)close(fd);
    host_stop(&h);
}

/* The server counts; we hold connections and see which one is too many. */
static void test_caps(struct host *h)
{
    int fds[TCP_AT_MOST], n = 0;
    char url[96];
    for (int i = 0; i < PER_ONE; i++)
        (void)ask(fds[n++] = dial(h->port, "127.0.0.1"));
    int more = dial(h->port, "127.0.0.1");
    ok(strstr(hear(more, NULL), "BUSY") != NULL,
       "more than %d of one address are refused", PER_ONE);
    (void)close(more);
    while (n < TCP_AT_MOST) {
        const char *from = n < 2 * PER_ONE ? "127.0.0.2" : "127.0.0.3";
        fds[n] = dial(h->port, from);
        if (!strstr(ask(fds[n]), from))
            ok(false, "%s is served", from);
        n++;
    }
    ok(true, "others still are, %d in all", n);
    more = dial(h->port, "127.0.0.4");
    ok(strstr(hear(more, NULL), "BUSY") != NULL, "and no more than that");
    (void)close(more);
    (void)snprintf(url, sizeof(url), "unix:%s", sock);
    char want[32];
    (void)snprintf(want, sizeof(want), "%lld |", (long long)getuid());
    answers(url, want, "the unix socket has its own room");
    while (n > 0)
        (void)close(fds[--n]);
}

/* Whose connections over TCP are known to be his has as many fewer here. */
static void test_both(struct host *h)
{
    int fds[PER_ONE];
    for (int i = 0; i < PER_ONE; i++) {
        fds[i] = dial(h->port, i % 2 ? "127.0.0.5" : "127.0.0.6");
        say(fds[i], "GET /me HTTP/1.1\r\nHost: x\r\n\r\n");
        if (!strstr(hear(fds[i], "|"), " 127.0.0."))
            ok(false, "%d of one user are served", i + 1);
    }
    int more = dial_unix(sock);
    ok(strstr(hear(more, NULL), "BUSY") != NULL,
       "S03: one user, over both: one more is refused");
    (void)close(more);
    for (int i = 0; i < PER_ONE; i++)
        (void)close(fds[i]);
}

/* ---- a client whose requests are authorized one by one --------------------
 */

struct flaky {
    int fd, port;
    char seen[2][32]; /* what the two tries showed */
    pthread_t thread;
};

/* Hangs up on the first request that it has read, answers the second. */
static void *flaky_main(void *arg)
{
    struct flaky *f = arg;
    for (int i = 0; i < 2; i++) {
        int fd = accept(f->fd, NULL, NULL);
        const char *at = strstr(hear(fd, "\r\n\r\n"), "Authorization: ");
        if (at)
            (void)sscanf(at, "Authorization: %31s", f->seen[i]);
        if (i == 1)
            say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        (void)close(fd);
    }
    return NULL;
}

static int authorize(void *arg, const struct http_request *req, struct buf *out,
                     struct error *err)
{
    int *n = arg;
    return buf_addf(out, err, "%s-%d", req->path + 1, ++*n);
}

static void test_authorize(void)
{
    struct flaky f = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    struct sockaddr_in a = {.sin_family = AF_INET};
    int n = 0, status = 0;
    char url[64];
    struct http_client_conf conf = {.url = url,
                                    .connect_timeout_s = 20,
                                    .timeout_s = 20,
                                    .authorize = authorize,
                                    .authorize_arg = &n};
    struct http_request req = {.method = "GET", .path = "/who"};
    struct http_client *c = NULL;
    struct buf b = BUF_INIT;
    struct error err = ERROR_INIT;
    (void)inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    if (bind(f.fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(f.fd, 4) < 0)
        abort();
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", local_port(f.fd));
    (void)pthread_create(&f.thread, NULL, flaky_main, &f);
    ok(http_client_create(&conf, &c, &err) == 0 &&
           http_client_call(c, &req, &status, &b, &err) == 0 && status == 200,
       "a lost request is repeated");
    (void)pthread_join(f.thread, NULL);
    is_str(f.seen[0], "who-1", "the first try was authorized");
    is_str(f.seen[1], "who-2", "and the second anew");
    buf_clear(&b);
    http_client_destroy(c);
    (void)close(f.fd);
}

/* Who counts as one, for the limit of connections. */
static void test_nets(void)
{
    static const char *const rows[][2] = {
        {"127.0.0.2", "127.0.0.2"},
        {"", ""},
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
        {"2001:db8:1:2::1", "2001:db8:1:2::/64"},
        {"2001:db8:1:3::1", "2001:db8:1:3::/64"},
        {"::1", "::/64"},
        {"fd00:1111:2222:3333:4444:5555:6666:7777", "fd00:1111:2222:3333::/64"},
    };
    char net[HTTP_PEER_CAP];
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        http_net_of(rows[i][0], net);
        is_str(net, rows[i][1], rows[i][0][0] ? rows[i][0] : "a unix socket");
    }
}

int main(void)
{
    struct host h;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(sock, sizeof(sock), "/tmp/mgpu-tcp.%d", (int)getpid());
    test_nets();
    test_refused();
    test_where();
    test_again();
    host_start(&h, &server, sock, "127.0.0.1:0");
    test_cloexec(&h);
    test_slow();
    test_caps(&h);
    host_stop(&h);
    host_start(&h, &server, sock, "127.0.0.1:0");
    test_both(&h);
    host_stop(&h);
    test_authorize();
    return tap_done();
}
