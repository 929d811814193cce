/* http_host.h - a server whose loop runs in a thread of the test, and what
 * speaks to it as no client of ours would.
 */
#ifndef MGPU_TESTS_BASE_HTTP_HOST_H
#define MGPU_TESTS_BASE_HTTP_HOST_H

#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/http/http_client.h"
#include "jobs/http/http_server.h"
#include "tests/tap.h"

struct host {
    struct http_server_conf conf; /* arg: the host */
    const char *sock, *listen;    /* where; NULL: not there */
    pthread_t thread;
    struct event_base *base;
    struct http_server *server;
    int stop[2], rc, port; /* rc and err: of its start */
    struct error err;
    pthread_barrier_t ready;
};

static inline void host_on_stop(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(arg);
}

static inline void *host_main(void *arg)
{
    struct host *h = arg;
    h->base = event_base_new();
    h->rc = http_server_create(h->base, &h->conf, &h->server, &h->err);
    if (h->rc == 0 && h->listen)
        h->rc = http_server_listen_tcp(h->server, h->listen, &h->port, &h->err);
    if (h->rc == 0 && h->sock)
        h->rc = http_server_listen_unix(h->server, h->sock, 0600, 0, &h->err);
    struct event *stop =
        event_new(h->base, h->stop[0], EV_READ, host_on_stop, h->base);
    (void)event_add(stop, NULL);
    (void)pthread_barrier_wait(&h->ready);
    if (h->rc == 0)
        (void)event_base_dispatch(h->base);
    event_free(stop);
    http_server_destroy(h->server);
    event_base_free(h->base);
    return NULL;
}

/* in  sock, listen  either may be NULL */
static inline void host_start(struct host *h,
                              const struct http_server_conf *conf,
                              const char *sock, const char *listen)
{
    *h = (struct host){.conf = *conf, .sock = sock, .listen = listen};
    h->conf.arg = h;
    (void)pthread_barrier_init(&h->ready, NULL, 2);
    if (pipe(h->stop) < 0 ||
        pthread_create(&h->thread, NULL, host_main, h) != 0)
        abort();
    (void)pthread_barrier_wait(&h->ready);
}

static inline void host_stop(struct host *h)
{
    (void)close(h->stop[1]);
    (void)pthread_join(h->thread, NULL);
    (void)close(h->stop[0]);
    (void)pthread_barrier_destroy(&h->ready);
}

/* Open descriptors of this process. */
static inline int n_fds(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    if (d)
        (void)closedir(d);
    return n;
}

/* Two answers that the tests of the server ask for. */
static inline void host_on_fail(void *arg, struct http_exchange *x)
{
    struct error err;
    (void)arg;
    (void)error_set(&err, ERR_FENCED, "job 12: \"quoted\"");
    http_reply_err(x, &err);
}

static inline void host_late(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    http_reply_text(arg, 200, "text/plain", "late", 4);
}

static inline void host_on_late(void *arg, struct http_exchange *x)
{
    struct host *h = arg;
    struct timeval tv = {.tv_usec = 50000};
    (void)event_base_once(h->base, -1, EV_TIMEOUT, host_late, x, &tv);
}

/* ---- clients ---------------------------------------------------------------
 */
static inline struct http_client *client_of(const char *url, const char *bearer)
{
    struct http_client *c = NULL;
    struct error err;
    struct http_client_conf conf = {
        .url = url, .bearer = bearer, .connect_timeout_s = 60, .timeout_s = 60};
    if (http_client_create(&conf, &c, &err) < 0)
        tap_diag("%s", err.msg);
    return c;
}

/* The status, or an error's code, negative. */
static inline int get(struct http_client *c, const char *path, struct buf *body)
{
    struct http_request req = {.method = "GET", .path = path};
    struct error err = ERROR_INIT;
    int status = 0;
    buf_reset(body);
    if (http_client_call(c, &req, &status, body, &err) < 0) {
        tap_diag("%s: %s", path, err.msg);
        return -(int)err.code;
    }
    return status;
}

static inline int dial_unix(const char *sock)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", sock);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        tap_diag("connect: %s", strerror(errno));
    return fd;
}

static inline void say(int fd, const char *text)
{
    (void)!write(fd, text, strlen(text));
}

/* What comes until the end, until `until` is seen, or for 60 s of silence. */
static inline const char *hear(int fd, const char *until)
{
    static _Thread_local char text[4096];
    size_t len = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    text[0] = '\0';
    while (len < sizeof(text) - 1 && poll(&p, 1, 60000) > 0) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        text[len] = '\0';
        if (until && strstr(text, until))
            break;
    }
    return text;
}

/* The text and then a header without end, a byte every 20 ms, never idle,
 * until there is an answer, or for a minute. Returns whether there was one. */
static inline bool say_slowly(int fd, const char *text)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    size_t len = strlen(text);
    for (size_t i = 0; i < 3000; i++) {
        if (poll(&p, 1, 20) != 0)
            return true;
        (void)!write(fd, i < len ? text + i : "x", 1);
    }
    return false;
}

#endif
