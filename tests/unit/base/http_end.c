/* http_end.c - a server ends while its clients are at any point, and leaves
 * nothing behind: while one sends more than the server reads for now, while
 * requests wait behind the one that is answered, while a body is half here.
 *
 * Server and client share one thread: the server ends after so many turns of
 * the loop, for every number of turns until nothing happens any more. libevent
 * allocates through the test, which counts what is not freed: the suppressions
 * of the leak sanitizer, which are for other programs, would hide it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/event.h>

#include "jobs/http/http_internal.h"
#include "jobs/http/http_server.h"
#include "tests/tap.h"

enum { TURNS = 12, MUCH = 1 << 20 };

static char sock[64];
static int n_answered;
static long n_kept; /* pieces of memory that libevent has */
static struct event_base *base;

static void *count_malloc(size_t n)
{
    void *p = malloc(n);
    n_kept += p != NULL;
    return p;
}

static void *count_realloc(void *old, size_t n)
{
    void *p = realloc(old, n);
    n_kept += p && !old;
    return p;
}

static void count_free(void *p)
{
    n_kept -= p != NULL;
    free(p);
}

/* What is ready by now stays undone. */
static void on_break(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    (void)event_base_loopbreak(base);
}

static void on_leave(void *arg, const char *path)
{
    (void)arg;
    (void)path;
    (void)event_base_loopbreak(base);
}

static void on_closed(void *arg)
{
    (void)arg;
}

static void on_tail(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_stream_start(x, "application/jsonl", on_closed, NULL);
    http_stream_send(x, "hello\n", 6);
    n_answered++;
}

static void on_short(void *arg, struct http_exchange *x)
{
    (void)arg;
    http_reply_text(x, 200, "text/plain", "short", 5);
    n_answered++;
}

/* A client that does not read is dropped, as if there had been no memory for
 * the event that tells of its leaving. */
static void on_deaf(void *arg, struct http_exchange *x)
{
    static char block[65536];
    (void)arg;
    http_stream_start(x, "application/jsonl", on_closed, NULL);
    event_free(x->conn->hup);
    x->conn->hup = NULL;
    for (int i = 0; i < 48; i++)
        http_stream_send(x, block, sizeof(block));
    n_answered++;
}

static const struct http_route routes[] = {{"GET", "/tail", on_tail},
                                           {"GET", "/deaf", on_deaf},
                                           {"GET", "/short", on_short},
                                           {"POST", "/short", on_short},
                                           {NULL, NULL, NULL}};

static int client(void)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", sock);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        exit(1);
    return fd;
}

/* Sends as much as the socket takes. */
static void send_all(int fd, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = send(fd, text + at, len - at, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        at += (size_t)n;
    }
}

/* When the loop ends: with nothing left to do, after a handler, or with input
 * that is ready. */
enum how { AT_REST, AT_HANDLER, BEFORE_READING };

/* What the client sends: `head`, and then `rest` again and again. */
static void try_end(const char *head, const char *rest, int turns, enum how how)
{
    struct http_server_conf conf = {.routes = routes,
                                    .max_body_bytes = 65536,
                                    .request_timeout_s = 60,
                                    .max_clients = 4,
                                    .max_clients_per_uid = 4};
    struct http_server *s = NULL;
    struct event *stop = NULL;
    struct error err = ERROR_INIT;
    conf.leave = how == AT_HANDLER ? on_leave : NULL;
    base = event_base_new();
    if (!base || !(stop = event_new(base, -1, 0, on_break, NULL)) ||
        http_server_create(base, &conf, &s, &err) < 0 ||
        http_server_listen_unix(s, sock, 0600, 0, &err) < 0) {
        tap_diag("%s", err.msg);
        exit(1);
    }
    int fd = client();
    char *much = malloc(MUCH);
    size_t n = 0, len = strlen(rest);
    if (!much)
        exit(1);
    for (; n + len < MUCH; n += len)
        memcpy(much + n, rest, len);
    send_all(fd, head, strlen(head));
    for (int i = 0; i < turns; i++) {
        send_all(fd, much, n);
        if (how == BEFORE_READING && i + 1 == turns)
            event_active(stop, EV_TIMEOUT, 0);
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    }
    free(much);
    event_free(stop);
    http_server_destroy(s);
    event_base_free(base);
    (void)close(fd);
}

int main(void)
{
    static const struct {
        const char *what, *head, *rest;
    } cases[] = {
        {"all is freed when a client sends on while a stream is answered",
         "GET /tail HTTP/1.1\r\nHost: mgpu\r\n\r\n", "0123456789abcdef"},
        {"all is freed when requests wait behind a stream",
         "GET /tail HTTP/1.1\r\nHost: mgpu\r\n\r\n",
         "GET /short HTTP/1.1\r\nHost: mgpu\r\n\r\n"},
        {"all is freed when requests follow each other",
         "GET /short HTTP/1.1\r\nHost: mgpu\r\n\r\n",
         "GET /short HTTP/1.1\r\nHost: mgpu\r\n\r\n"},
        {"all is freed when a body is longer than allowed",
         "POST /short HTTP/1.1\r\nHost: mgpu\r\nContent-Length: 99999999\r\n"
         "\r\n",
         "0123456789abcdef"},
        {"all is freed when a body is on its way",
         "POST /short HTTP/1.1\r\nHost: mgpu\r\nContent-Length: 65000\r\n\r\n",
         "x"},
        {"all is freed when a client is dropped that does not read",
         "GET /deaf HTTP/1.1\r\nHost: mgpu\r\n\r\n", "0123456789abcdef"},
        {"all is freed when a line does not end", "GET /short?",
         "0123456789abcdef"},
    };
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(sock, sizeof(sock), "/tmp/mgpu-http-end-%d", (int)getpid());
    event_set_mem_functions(count_malloc, count_realloc, count_free);
    try_end(cases[0].head, cases[0].rest, 0, AT_REST);
    long before = n_kept; /* of the process */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int turns = 0; turns < TURNS; turns++) {
            try_end(cases[i].head, cases[i].rest, turns, AT_REST);
            try_end(cases[i].head, cases[i].rest, turns, AT_HANDLER);
            try_end(cases[i].head, cases[i].rest, turns, BEFORE_READING);
        }
        is_int(n_kept, before, cases[i].what);
    }
    ok(n_answered > 0, "requests were answered");
    return tap_done();
}
