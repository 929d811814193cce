/* http_left.c - clients that leave, or send on, while they are answered. */
#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>

#include "jobs/http/http_internal.h"
#include "jobs/http/http_local.h"
#include "tests/unit/base/http_host.h"

/* What a client sends at most, and more than the server may keep of it. */
enum { SENT_BYTES = 8 << 20, KEPT_BYTES = 256 << 10, BODY_BYTES = 150000 };

static char sock[64];
static atomic_int n_asked, n_left, n_closed, n_late;
static atomic_int n_away; /* clients that on_uid() waits for */
static atomic_llong uid_was;

/* ---- the server's side ----------------------------------------------------
 */

static void on_left(void *arg)
{
    struct error err;
    (void)error_set(&err, ERR_UNAVAIL, "left");
    http_reply_err(arg, &err);
    atomic_fetch_add(&n_left, 1);
}

static void on_hang(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_watch_left(x, on_left, x);
    atomic_fetch_add(&n_asked, 1);
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

/* Asks for the uid when the client has left. */
static void on_uid(void *arg, struct http_exchange *x)
{
    (void)arg;
    atomic_fetch_add(&n_asked, 1);
    while (atomic_load(&n_away) == 0)
        (void)poll(NULL, 0, 1);
    atomic_store(&uid_was, http_local_uid(x));
    atomic_store(&n_away, 0);
    http_reply_text(x, 200, "text/plain", "", 0);
}

/* The most that the server keeps of what a client has sent. */
static void on_kept(void *arg, struct http_exchange *x)
{
    const struct http_server *s = x->conn->s;
    char text[32];
    size_t most = 0;
    (void)arg;
    for (struct http_conn *c = s->conns.next; c != &s->conns; c = c->next) {
        if (!http_conn_is_open(c)) /* libevent has freed its buffers */
            continue;
        size_t n = evbuffer_get_length(bufferevent_get_input(c->bev));
        most = n > most ? n : most;
    }
    int n = snprintf(text, sizeof(text), "%zu|", most);
    http_reply_text(x, 200, "text/plain", text, (size_t)n);
}

static void on_body(void *arg, struct http_exchange *x)
{
    char text[32];
    size_t len = 0;
    (void)arg;
    (void)http_body(x, &len);
    int n = snprintf(text, sizeof(text), "%zu bytes|", len);
    http_reply_text(x, 200, "text/plain", text, (size_t)n);
}

/* As if there had been no memory for the event. */
static void on_deaf(void *arg, struct http_exchange *x)
{
    static char block[65536];
    (void)arg;
    http_stream_start(x, "application/jsonl", on_closed, NULL);
    event_free(x->conn->hup);
    x->conn->hup = NULL;
    for (int i = 0; i < 48; i++)
        http_stream_send(x, block, sizeof(block));
}

struct cut {
    struct http_exchange *x;
    int ready[2];
    struct event *now;
};

static void on_drained(void *arg)
{
    (void)arg;
    atomic_fetch_add(&n_late, 1);
}

static void on_cut_now(evutil_socket_t fd, short what, void *arg)
{
    struct cut *c = arg;
    (void)fd;
    (void)what;
    http_stream_cut(c->x);
    event_free(c->now);
    (void)close(c->ready[0]);
    (void)close(c->ready[1]);
    free(c);
}

/* In the same turn of the loop the stream is cut and then the client takes all
 * of it: a descriptor that is ready first is served first. */
static void on_cut(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    struct cut *c = calloc(1, sizeof(*c));
    if (!c || pipe(c->ready) < 0 || write(c->ready[1], "", 1) != 1)
        abort();
    c->x = x;
    c->now = event_new(h->base, c->ready[0], EV_READ, on_cut_now, c);
    (void)event_add(c->now, NULL);
    http_stream_start(x, "application/jsonl", on_closed, c);
    http_stream_on_drained(x, on_drained);
    http_stream_send(x, "half\n", 5);
}

static const struct http_route routes[] = {
    {"GET", "/hang", on_hang}, {"GET", "/tail", on_tail},
    {"GET", "/kept", on_kept}, {"POST", "/body", on_body},
    {"GET", "/deaf", on_deaf}, {"GET", "/cut", on_cut},
    {"GET", "/uid", on_uid},   {NULL, NULL, NULL},
};

static const struct http_server_conf server = {
    .routes = routes,
    .max_body_bytes = BODY_BYTES,
    .request_timeout_s = 60, /* of a test that was not let run */
    .idle_timeout_s = 60,
    .max_clients = 20,
    .max_clients_per_uid = 20,
};

/* ---- tests ----------------------------------------------------------------
 */

static bool became(atomic_int *n, int want)
{
    for (int i = 0; i < 6000 && atomic_load(n) != want; i++)
        (void)poll(NULL, 0, 10);
    return atomic_load(n) == want;
}

static int dial_tcp(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("connect: %s", strerror(errno));
    return fd;
}

static void reset(int fd)
{
    const struct linger now = {.l_onoff = 1};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    (void)close(fd);
}

static void test_left(const struct host *h)
{
    static const char hang[] = "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n";
    int asked = 0, left = 0;
    for (int with_next = 0; with_next < 2; with_next++) {
        for (int is_reset = 0; is_reset < 2; is_reset++) {
            int fd = dial_tcp(h->port);
            say(fd, hang);
            if (!became(&n_asked, ++asked))
                ok(false, "the request came");
            if (with_next)
                say(fd, hang);
            if (is_reset)
                reset(fd);
            else
                (void)close(fd);
            ok(became(&n_left, ++left), "before the reply %s%s is seen",
               is_reset ? "a reset" : "an end",
               with_next ? " behind another request" : "");
        }
    }
    ok(atomic_load(&n_asked) == asked, "and the other request does not run");
}

/* The uid that the server sees when the client has done what `leave` does. */
static long long uid_after(const struct host *h, void (*leave)(int fd))
{
    int want = atomic_load(&n_asked) + 1, fd = dial_tcp(h->port);
    say(fd, "GET /uid HTTP/1.1\r\nHost: x\r\n\r\n");
    if (!became(&n_asked, want))
        ok(false, "the request came");
    leave(fd);
    atomic_store(&n_away, 1);
    if (!became(&n_away, 0))
        ok(false, "and was answered");
    return atomic_load(&uid_was);
}

static void stay(int fd)
{
    (void)fd;
}

static void hang_up(int fd)
{
    (void)close(fd);
}

static void half_close(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

static void test_uid(const struct host *h)
{
    long long uid = uid_after(h, stay);
    ok(uid == (long long)getuid() || uid == HTTP_LOCAL_UNKNOWN,
       "S19: the uid of a client that is there: %lld", uid);
    is_int(uid_after(h, hang_up), HTTP_LOCAL_LEFT,
           "S19: of one that has closed nothing is known");
    is_int(uid_after(h, reset), HTTP_LOCAL_LEFT, "S19: nor after a reset");
    is_int(uid_after(h, half_close), HTTP_LOCAL_LEFT,
           "S19: nor of one that may close at any time");
}

static void test_cut(void)
{
    int fd = dial_unix(sock);
    say(fd, "GET /cut HTTP/1.1\r\nHost: x\r\n\r\n");
    const char *text = hear(fd, NULL);
    ok(strstr(text, "half\n") && !strstr(text, "\r\n0\r\n"),
       "a stream is cut while its client takes it");
    is_int(atomic_load(&n_late), 0, "and its sender hears no more of it");
    (void)close(fd);
}

static void test_deaf(void)
{
    int before = atomic_load(&n_closed), fd = dial_unix(sock);
    say(fd, "GET /deaf HTTP/1.1\r\nHost: x\r\n\r\n");
    ok(became(&n_closed, before + 1),
       "who never reads is dropped without an event for it, too");
    (void)close(fd);
}

/* Sends after the head what fits, until it is much, or nothing fits any more,
 * the server having run in between. Returns the most that it kept. */
static long most_kept(const char *head, char what)
{
    static char block[1 << 16];
    int fd = dial_unix(sock), ask = dial_unix(sock);
    long most = 0;
    size_t sent = 0;
    memset(block, what, sizeof(block));
    say(fd, head);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    for (int n_full = 0; n_full < 100 && sent < SENT_BYTES;) {
        ssize_t n = write(fd, block, sizeof(block));
        n_full = n < 0 ? n_full + 1 : 0;
        sent += n > 0 ? (size_t)n : 0;
        say(ask, "GET /kept HTTP/1.1\r\nHost: x\r\n\r\n");
        const char *end = strstr(hear(ask, "|"), "\r\n\r\n");
        long kept = end ? strtol(end + 4, NULL, 10) : SENT_BYTES;
        most = kept > most ? kept : most;
    }
    (void)close(fd);
    (void)close(ask);
    return most;
}

static void test_kept(void)
{
    long n = most_kept("GET /tail HTTP/1.1\r\nHost: x\r\n\r\n", '\0');
    ok(n < KEPT_BYTES, "S02: while a stream is answered it keeps %ld bytes", n);
    n = most_kept("GET /hang HTTP/1.1\r\nHost: x\r\n\r\n", 'x');
    ok(n < KEPT_BYTES, "S02: before the reply %ld", n);
    n = most_kept("POST /body HTTP/1.1\r\nHost: x\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n",
                  '0');
    ok(n < KEPT_BYTES, "S02: of the length of a chunk %ld", n);
}

static void test_endless(void)
{
    static char block[1 << 16];
    int fd = dial_unix(sock);
    ssize_t n = 0;
    memset(block, '0', sizeof(block));
    say(fd, "POST /body HTTP/1.1\r\nHost: x\r\n"
            "Transfer-Encoding: chunked\r\n\r\n");
    for (size_t sent = 0; n >= 0 && sent < SENT_BYTES; sent += (size_t)n)
        n = write(fd, block, sizeof(block));
    ok(n < 0 && strstr(hear(fd, NULL), " 413 "),
       "S02: a line that does not end is refused");
    (void)close(fd);
}

/* Bodies of the greatest size, each right behind the other. */
static void test_behind(void)
{
    static char body[BODY_BYTES + 1];
    char head[128];
    int n = 0, fd = dial_unix(sock);
    memset(body, 'b', BODY_BYTES);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(head, sizeof(head),
                       "POST /body HTTP/1.1\r\nHost: x\r\n"
                       "Content-Length: %d\r\n%s\r\n",
                       BODY_BYTES, i == 2 ? "Connection: close\r\n" : "");
        say(fd, head);
        say(fd, body);
    }
    const char *p = hear(fd, NULL);
    while ((p = strstr(p, "150000 bytes|")) != NULL)
        p++, n++;
    is_int(n, 3, "bodies that are sent at once are whole");
    (void)close(fd);
}

int main(void)
{
    struct host h;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(sock, sizeof(sock), "/tmp/mgpu-left.%d", (int)getpid());
    host_start(&h, &server, sock, "127.0.0.1:0");
    test_left(&h);
    test_uid(&h);
    test_cut();
    test_deaf();
    test_kept();
    test_endless();
    test_behind();
    host_stop(&h);
    return tap_done();
}
