/* upstream.c - requests that are passed on: what of them, and how their end and
 * a slow client are passed on as well. */
#include <signal.h>
#include <stdatomic.h>

#include "scheduler/web/http_upstream.h"
#include "tests/unit/base/http_host.h"

/* More than the buffers between daemon and client hold. */
enum { FLOOD_BYTES = 16 << 20, BLOCK_BYTES = 1 << 16 };

static char dir[] = "/tmp/mgpu-upstream.XXXXXX";
static char daemon_sock[64], web_sock[64], daemon_url[80];
static atomic_int n_left, n_closed, n_waiting;

/* ---- a daemon -------------------------------------------------------------
 */

static const char *or_none(const char *text)
{
    return text ? text : "-";
}

static void on_echo(void *arg, struct http_exchange *x)
{
    char text[512];
    size_t len = 0;
    const char *body = http_body(x, &len);
    (void)arg;
    int n =
        snprintf(text, sizeof(text), "%s|%s|%s|%s|%s|%.*s", http_method(x),
                 http_target(x), or_none(http_header(x, "Cookie")),
                 or_none(http_header(x, "Authorization")),
                 or_none(http_header(x, "Idempotency-Key")), (int)len, body);
    http_reply_text(x, 201, "text/plain; charset=utf-8", text, (size_t)n);
}

static void on_limit(void *arg, struct http_exchange *x)
{
    struct error err;
    (void)arg;
    (void)error_set(&err, ERR_LIMIT, "too many");
    http_reply_retry(x, &err, 2.5);
}

struct flood {
    struct http_exchange *x;
    size_t sent;
};
static struct flood flood;

static void on_flood_drained(void *arg)
{
    static char block[BLOCK_BYTES];
    struct flood *f = arg;
    if (f->sent == FLOOD_BYTES) {
        http_stream_end(f->x);
        return;
    }
    memset(block, 'a' + (int)(f->sent / BLOCK_BYTES % 26), sizeof(block));
    f->sent += sizeof(block);
    http_stream_send(f->x, block, sizeof(block));
}

static void on_flood(void *arg, struct http_exchange *x)
{
    (void)arg;
    flood = (struct flood){.x = x};
    http_stream_start(x, "application/jsonl", NULL, &flood);
    http_stream_on_drained(x, on_flood_drained);
    on_flood_drained(&flood);
}

static void cut(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    http_stream_cut(arg);
}

static void on_cut(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    const struct timeval tv = {.tv_usec = 100000};
    http_stream_start(x, "application/jsonl", NULL, NULL);
    http_stream_send(x, "half\n", 5);
    (void)event_base_once(h->base, -1, EV_TIMEOUT, cut, x, &tv);
}

static void on_left(void *arg)
{
    struct error err;
    atomic_fetch_add(&n_left, 1);
    (void)error_set(&err, ERR_UNAVAIL, "left");
    http_reply_err(arg, &err);
}

static void on_hang(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_watch_left(x, on_left, x);
    atomic_fetch_add(&n_waiting, 1);
}

static void on_closed(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_closed, 1);
}

static void on_tail(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_stream_start(x, "application/jsonl", on_closed, NULL);
    http_stream_send(x, "hello\n", 6);
}

static const struct http_route daemon_routes[] = {
    {"GET", "/v1/echo/*", on_echo}, {"POST", "/v1/echo/*", on_echo},
    {"GET", "/v1/limit", on_limit}, {"GET", "/v1/flood", on_flood},
    {"GET", "/v1/cut", on_cut},     {"GET", "/v1/hang", on_hang},
    {"GET", "/v1/tail", on_tail},   {NULL, NULL, NULL},
};

/* ---- what passes on -------------------------------------------------------
 */

static struct web_upstream *up; /* of the loop's thread */

static void on_pass(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    const struct web_upstream_conf conf = {.url = daemon_url};
    struct error err;
    if (!up && web_upstream_create(h->base, &conf, &up, &err) < 0)
        http_reply_err(x, &err);
    else
        web_upstream_pass(up, x);
}

static void on_end(void *arg, struct http_exchange *x)
{
    (void)arg;
    web_upstream_destroy(up);
    up = NULL;
    http_reply_text(x, 200, "text/plain", "", 0);
}

static const struct http_route web_routes[] = {
    {"GET", "/v1/*", on_pass},
    {"POST", "/v1/*", on_pass},
    {"GET", "/end", on_end},
    {NULL, NULL, NULL},
};
static const struct http_header web_headers[] = {
    {"X-One", "1"}, {"X-Two", "two"}, {NULL, NULL}};

/* ---- tests ----------------------------------------------------------------
 */

/* The whole answer, as it came; the request ends with `Connection: close`. */
static const char *ask(const char *text)
{
    int fd = dial_unix(web_sock);
    say(fd, text);
    const char *got = hear(fd, NULL);
    (void)close(fd);
    return got;
}

static void has(const char *got, const char *want)
{
    if (!ok(strstr(got, want) != NULL, "%.40s", want))
        tap_diag("got: %s", got);
}

static void test_what_is_passed(void)
{
    const char *got =
        ask("POST /v1/echo/a%2Fb?q=1&r=%20 HTTP/1.1\r\nHost: x\r\n"
            "Cookie: secret=1\r\nAuthorization: Bearer t\r\n"
            "Idempotency-Key: once\r\nContent-Length: 4\r\n"
            "Connection: close\r\n\r\n{} \n");
    has(got, "HTTP/1.1 201 ");
    has(got, "Content-Type: text/plain; charset=utf-8\r\n");
    has(got, "POST|/v1/echo/a%2Fb?q=1&r=%20|-|-|once|{} \n");
    has(got, "X-One: 1\r\nX-Two: two\r\n");
    has(got, "\r\n0\r\n\r\n");
    got = ask("GET /v1/echo/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
              "\r\n");
    has(got, "GET|/v1/echo/x|-|-|-|\r\n");
    got = ask("GET /v1/echo/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    has(got, "HTTP/1.1 404 ");
    got = ask("GET /v1/limit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    has(got, "HTTP/1.1 429 ");
    has(got, "Retry-After: 3\r\n");
    has(got, "\"retry_after_s\":2.5");
    /* A head that is refused before there is a request. */
    got = ask("GET /v1/limit HTTP/1.1\r\nbad\r\n\r\n");
    has(got, "HTTP/1.1 400 ");
    has(got, "X-One: 1\r\nX-Two: two\r\n");
}

/* Every byte reaches a client that is slower than the daemon. */
static void test_flood(void)
{
    int fd = dial_unix(web_sock);
    say(fd, "GET /v1/flood HTTP/1.0\r\nHost: x\r\n\r\n");
    char piece[4096];
    size_t n_bytes = 0, n_wrong = 0;
    bool in_body = false;
    for (ssize_t n; (n = read(fd, piece, sizeof(piece))) > 0;) {
        const char *p = piece;
        if (!in_body) {
            const char *end = memmem(piece, (size_t)n, "\r\n\r\n", 4);
            if (!end)
                continue;
            in_body = true;
            p = end + 4;
        }
        for (; p < piece + n; p++, n_bytes++)
            n_wrong += *p != 'a' + (int)(n_bytes / BLOCK_BYTES % 26);
    }
    is_int((int)n_bytes, FLOOD_BYTES, "all of it came");
    is_int((int)n_wrong, 0, "in order");
    (void)close(fd);
}

/* For half as long as a request may take that nobody ends. */
static void wait_for(atomic_int *n, int want, const char *what)
{
    for (int i = 0; i < 3000 && atomic_load(n) != want; i++)
        (void)poll(NULL, 0, 10);
    is_int(atomic_load(n), want, what);
}

static void test_ends(void)
{
    const char *got =
        ask("GET /v1/cut HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    has(got, "HTTP/1.1 200 ");
    has(got, "half\n");
    ok(!strstr(got, "\r\n0\r\n"), "a stream that was cut does not look whole");

    int fd = dial_unix(web_sock);
    say(fd, "GET /v1/hang HTTP/1.1\r\nHost: x\r\n\r\n");
    wait_for(&n_waiting, 1, "the daemon has the request");
    (void)close(fd);
    wait_for(&n_left, 1, "a client that leaves ends the request");

    fd = dial_unix(web_sock);
    say(fd, "GET /v1/tail HTTP/1.1\r\nHost: x\r\n\r\n");
    has(hear(fd, "hello\n"), "hello\n");
    (void)close(fd);
    wait_for(&n_closed, 1, "and a stream");
}

static void test_away(struct host *daemon)
{
    host_stop(daemon);
    const char *got =
        ask("GET /v1/limit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    has(got, "HTTP/1.1 503 ");
    has(got, "\"code\":\"UNAVAIL\"");
    has(got, "no daemon answers at 'unix:");
}

int main(void)
{
    struct host daemon, web;
    struct http_server_conf conf = {.routes = daemon_routes,
                                    .max_body_bytes = 1000,
                                    .request_timeout_s = 60,
                                    .max_clients = 20,
                                    .max_clients_per_uid = 20};
    (void)signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(daemon_sock, sizeof(daemon_sock), "%s/daemon", dir);
    (void)snprintf(web_sock, sizeof(web_sock), "%s/web", dir);
    (void)snprintf(daemon_url, sizeof(daemon_url), "unix:%s", daemon_sock);
    host_start(&daemon, &conf, daemon_sock, NULL);
    conf.routes = web_routes;
    conf.headers = web_headers;
    host_start(&web, &conf, web_sock, NULL);
    test_what_is_passed();
    test_flood();
    test_ends();
    test_away(&daemon);
    (void)ask("GET /end HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    host_stop(&web);
    (void)rmdir(dir);
    return tap_done();
}
