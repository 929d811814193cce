/* others.c - requests of strangers that are passed on (S20): only replies that
 * are for others, no more at a time than there is room for, and none to a
 * client that takes nothing. */
#include <signal.h>
#include <stdatomic.h>

#include "jobs/wire/wire.h"
#include "scheduler/web/http_upstream.h"
#include "tests/unit/base/http_host.h"

/* More than the buffers between daemon and client hold. */
enum { FLOOD_BYTES = 16 << 20, BLOCK_BYTES = 1 << 16 };

static char dir[] = "/tmp/mgpu-others.XXXXXX";
static char daemon_sock[64], web_sock[64], daemon_url[80];
static atomic_int n_closed, n_open;

/* ---- a daemon -------------------------------------------------------------
 */

static void say_text(struct http_exchange *x, int status, const char *text)
{
    http_reply_text(x, status, "text/plain", text, strlen(text));
}

static void on_others(void *arg, struct http_exchange *x)
{
    const char *view = http_header(x, WIRE_VIEW);
    (void)arg;
    http_add_header(x, WIRE_VIEW, WIRE_VIEW_OTHERS);
    say_text(x, 200, view ? view : "none");
}

static void on_all(void *arg, struct http_exchange *x)
{
    (void)arg;
    say_text(x, 200, "secret");
}

static void on_another(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_add_header(x, WIRE_VIEW, "all");
    say_text(x, 200, "secret");
}

static void on_refusal(void *arg, struct http_exchange *x)
{
    struct error err;
    (void)arg;
    (void)error_set(&err, ERR_DENIED, "another user's");
    http_reply_err(x, &err);
}

static void on_closed(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_closed, 1);
}

static void on_watch(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_add_header(x, WIRE_VIEW, WIRE_VIEW_OTHERS);
    http_stream_start(x, "application/jsonl", on_closed, NULL);
    http_stream_send(x, "hello\n", 6);
    atomic_fetch_add(&n_open, 1);
}

/* No reply; `left` must answer. */
static void on_hang_left(void *arg)
{
    on_refusal(NULL, arg);
    atomic_fetch_add(&n_closed, 1);
}

static void on_hang(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_watch_left(x, on_hang_left, x);
    atomic_fetch_add(&n_open, 1);
}

static size_t flooded;

static void on_flood_drained(void *arg)
{
    static char block[BLOCK_BYTES];
    for (int i = 0; i < 4 && flooded < FLOOD_BYTES; i++) {
        flooded += sizeof(block);
        http_stream_send(*(struct http_exchange **)arg, block, sizeof(block));
    }
}

static void on_flood_closed(void *arg)
{
    on_closed(arg);
}

static void on_flood(void *arg, struct http_exchange *x)
{
    static struct http_exchange *it;
    (void)arg;
    it = x;
    http_add_header(x, WIRE_VIEW, WIRE_VIEW_OTHERS);
    http_stream_start(x, "application/jsonl", on_flood_closed, &it);
    http_stream_on_drained(x, on_flood_drained);
    on_flood_drained(&it);
}

static const struct http_route daemon_routes[] = {
    {"GET", "/v1/jobs", on_others},  {"GET", "/v1/nodes", on_all},
    {"GET", "/v1/gpus", on_another}, {"GET", "/v1/jobs/:id", on_refusal},
    {"GET", "/v1/watch", on_watch},  {"GET", "/v1/flood", on_flood},
    {"GET", "/v1/hang", on_hang},    {NULL, NULL, NULL},
};

/* ---- what passes on -------------------------------------------------------
 */

static struct web_upstream *up; /* of the loop's thread */

static void on_pass(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    const struct web_upstream_conf conf = {.url = daemon_url,
                                           .is_others = true,
                                           .max_passes = 3,
                                           .max_streams = 2,
                                           .still_s = 0.01};
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

static void on_cut(void *arg, struct http_exchange *x)
{
    (void)arg;
    web_upstream_cut_streams(up);
    http_reply_text(x, 200, "text/plain", "", 0);
}

static const struct http_route web_routes[] = {
    {"GET", "/v1/*", on_pass},
    {"GET", "/cut", on_cut},
    {"GET", "/end", on_end},
    {NULL, NULL, NULL},
};

/* ---- tests ----------------------------------------------------------------
 */

static int begin(const char *path)
{
    char text[200];
    int fd = dial_unix(web_sock);
    (void)snprintf(text, sizeof(text),
                   "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                   path);
    say(fd, text);
    return fd;
}

static const char *ask(const char *path)
{
    int fd = begin(path);
    const char *got = hear(fd, NULL);
    (void)close(fd);
    return got;
}

static void has(const char *got, const char *want)
{
    if (!ok(strstr(got, want) != NULL, "%.40s", want))
        tap_diag("got: %s", got);
}

static void wait_for(atomic_int *n, int want, const char *what)
{
    while (atomic_load(n) < want)
        (void)poll(NULL, 0, 10);
    is_int(atomic_load(n), want, what);
}

static void test_view(void)
{
    has(ask("/v1/jobs"), "others");
    static const char *const paths[] = {"/v1/nodes", "/v1/gpus"};
    for (size_t i = 0; i < 2; i++) {
        const char *got = ask(paths[i]);
        has(got, "HTTP/1.1 502 ");
        ok(!strstr(got, "secret"), "S20: what is not for others is not shown");
        has(got, "is older than this mgpu-web");
    }
    has(ask("/v1/jobs/1"), "another user's");
}

static void test_room(void)
{
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = begin("/v1/watch?x=1");
        wait_for(&n_open, i + 1, "S20: a stream");
    }
    const char *got = ask("/v1/watch");
    has(got, "HTTP/1.1 429 ");
    has(got, "Retry-After: 5\r\n");
    has(ask("/v1/jobs"), "others");
    (void)close(fds[0]);
    wait_for(&n_closed, 1, "one leaves");
    fds[0] = begin("/v1/watch");
    wait_for(&n_open, 3, "S20: and makes room");
    (void)close(fds[0]);
    (void)close(fds[1]);
    wait_for(&n_closed, 3, "all have left");
}

static void test_still(void)
{
    int fd = begin("/v1/flood");
    wait_for(&n_closed, 4, "S20: a client that takes nothing is cut");
    const char *got = ask("/v1/jobs");
    has(got, "others");
    (void)close(fd);
}

/* A stream whose head is on its way would begin after the token has changed. */
static void test_cut(void)
{
    int fd = begin("/v1/hang");
    wait_for(&n_open, 4, "the daemon has the request");
    has(ask("/cut"), "HTTP/1.1 200 ");
    const char *got = hear(fd, NULL);
    has(got, "HTTP/1.1 403 ");
    has(got, "the session has ended");
    wait_for(&n_closed, 5, "S20: a reply that has not begun does not begin");
    (void)close(fd);
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
    host_start(&web, &conf, web_sock, NULL);
    test_view();
    test_room();
    test_still();
    test_cut();
    (void)ask("/end");
    host_stop(&web);
    host_stop(&daemon);
    (void)rmdir(dir);
    return tap_done();
}
