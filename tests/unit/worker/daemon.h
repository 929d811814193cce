/* daemon.h - a daemon that a test can switch off, make refuse or forget:
 * the worker's end of the wire, in a thread of the test.
 */
#ifndef MGPU_TESTS_WORKER_DAEMON_H
#define MGPU_TESTS_WORKER_DAEMON_H

#include <event2/event.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "jobs/http/http_server.h"

enum daemon_mode {
    DAEMON_TAKES,
    DAEMON_FENCES,
    DAEMON_FAILS,
    DAEMON_NO_DISK,
    DAEMON_LACKS /* memory: its library answers in its place */
};

struct daemon {
    char dir[64], path[80], url[96];
    bool is_tcp;
    int port; /* the same one after a restart */
    pthread_t thread;
    pthread_barrier_t ready;
    int stop[2];
    struct event_base *base;
    bool is_up;

    pthread_mutex_t lock;
    enum daemon_mode mode;
    struct buf rows; /* the spool as stored */
    struct buf beat, claim, report;
    int n_rows, n_beats, n_claims, n_reports;
    char bearer[80];
};

static inline void daemon_keep(struct daemon *d, struct http_exchange *x,
                               struct buf *to, int *n)
{
    size_t len = 0;
    const char *body = http_body(x, &len);
    const char *bearer = http_bearer(x);
    buf_reset(to);
    if (buf_add(to, body, len, NULL) < 0)
        abort();
    ++*n;
    (void)snprintf(d->bearer, sizeof(d->bearer), "%s",
                   bearer != NULL ? bearer : "");
}

/* True when the mode has answered. */
static inline bool daemon_refuses(const struct daemon *d,
                                  struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    if (d->mode == DAEMON_TAKES)
        return false;
    if (d->mode == DAEMON_LACKS) {
        http_reply_json(x, 400, "<HTML>", 6);
        return true;
    }
    if (d->mode == DAEMON_FENCES)
        (void)error_set(&err, ERR_FENCED, "attempt 2 holds the lease");
    else if (d->mode == DAEMON_NO_DISK)
        (void)error_set(&err, ERR_IO, "the disk failed");
    else
        (void)error_set(&err, ERR_BUSY, "not now");
    http_reply_err(x, &err);
    return true;
}

static inline void daemon_on_rows(void *arg, struct http_exchange *x)
{
    struct daemon *d = arg;
    pthread_mutex_lock(&d->lock);
    if (!daemon_refuses(d, x)) {
        const char *offset = http_query(x, "offset");
        size_t at = offset != NULL ? strtoull(offset, NULL, 10) : 0, len = 0;
        const char *body = http_body(x, &len);
        /* Bytes it has are skipped, bytes it misses are asked for again. */
        if (at <= d->rows.len && at + len > d->rows.len &&
            buf_add(&d->rows, body + (d->rows.len - at), at + len - d->rows.len,
                    NULL) < 0)
            abort();
        d->n_rows++;
        char text[64];
        int n = snprintf(text, sizeof(text), "{\"acked\":%zu}", d->rows.len);
        http_reply_json(x, 200, text, (size_t)n);
    }
    pthread_mutex_unlock(&d->lock);
}

static inline void daemon_on_beat(void *arg, struct http_exchange *x)
{
    struct daemon *d = arg;
    pthread_mutex_lock(&d->lock);
    daemon_keep(d, x, &d->beat, &d->n_beats);
    if (!daemon_refuses(d, x))
        http_reply_json(x, 200, "{}", 2);
    pthread_mutex_unlock(&d->lock);
}

static inline void daemon_on_claim(void *arg, struct http_exchange *x)
{
    struct daemon *d = arg;
    pthread_mutex_lock(&d->lock);
    daemon_keep(d, x, &d->claim, &d->n_claims);
    if (!daemon_refuses(d, x))
        http_reply_json(x, 200, "{}", 2);
    pthread_mutex_unlock(&d->lock);
}

static inline void daemon_on_report(void *arg, struct http_exchange *x)
{
    struct daemon *d = arg;
    pthread_mutex_lock(&d->lock);
    daemon_keep(d, x, &d->report, &d->n_reports);
    if (!daemon_refuses(d, x))
        http_reply_json(x, 200, "{}", 2);
    pthread_mutex_unlock(&d->lock);
}

static inline void daemon_on_stop(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)event_base_loopbreak(arg);
}

static inline int daemon_listen(struct daemon *d, struct http_server *server,
                                struct error *err)
{
    char where[32];
    if (!d->is_tcp)
        return http_server_listen_unix(server, d->path, 0600, 0, err);
    (void)snprintf(where, sizeof(where), "127.0.0.1:%d", d->port);
    return http_server_listen_tcp(server, where, &d->port, err);
}

static inline void *daemon_main(void *arg)
{
    static const struct http_route routes[] = {
        {"POST", "/v1/attempts/:job/:attempt/rows", daemon_on_rows},
        {"POST", "/v1/attempts/:job/:attempt/heartbeat", daemon_on_beat},
        {"POST", "/v1/attempts/:job/:attempt/claim", daemon_on_claim},
        {"POST", "/v1/attempts/:job/:attempt/report", daemon_on_report},
        {NULL, NULL, NULL},
    };
    struct daemon *d = arg;
    struct error err = ERROR_INIT;
    struct http_server *server = NULL;
    struct http_server_conf conf = {.routes = routes,
                                    .arg = d,
                                    .max_body_bytes = 2 << 20,
                                    .request_timeout_s = 5,
                                    .max_clients = 20,
                                    .max_clients_per_uid = 20};
    d->base = event_base_new();
    if (http_server_create(d->base, &conf, &server, &err) < 0 ||
        daemon_listen(d, server, &err) < 0) {
        (void)fprintf(stderr, "# %s\n", err.msg);
        abort();
    }
    struct event *stop =
        event_new(d->base, d->stop[0], EV_READ, daemon_on_stop, d->base);
    (void)event_add(stop, NULL);
    (void)pthread_barrier_wait(&d->ready);
    (void)event_base_dispatch(d->base);
    event_free(stop);
    http_server_destroy(server);
    event_base_free(d->base);
    return NULL;
}

static inline void daemon_up(struct daemon *d)
{
    (void)pthread_barrier_init(&d->ready, NULL, 2);
    if (pipe(d->stop) < 0 ||
        pthread_create(&d->thread, NULL, daemon_main, d) != 0)
        abort();
    (void)pthread_barrier_wait(&d->ready);
    d->is_up = true;
}

static inline void daemon_down(struct daemon *d)
{
    if (!d->is_up)
        return;
    (void)close(d->stop[1]);
    (void)pthread_join(d->thread, NULL);
    (void)close(d->stop[0]);
    (void)pthread_barrier_destroy(&d->ready);
    (void)unlink(d->path);
    d->is_up = false;
}

/* A port that is free, for now: the tests speak of a daemon that is not
 * there yet. */
static inline int daemon_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        abort();
    (void)close(fd);
    return ntohs(a.sin_port);
}

static inline void daemon_init(struct daemon *d, bool is_tcp)
{
    memset(d, 0, sizeof(*d));
    d->is_tcp = is_tcp;
    (void)snprintf(d->dir, sizeof(d->dir), "/tmp/mgpu-worker.XXXXXX");
    if (mkdtemp(d->dir) == NULL)
        abort();
    (void)snprintf(d->path, sizeof(d->path), "%s/sock", d->dir);
    (void)snprintf(d->url, sizeof(d->url), "unix:%s", d->path);
    if (is_tcp) {
        d->port = daemon_port();
        (void)snprintf(d->url, sizeof(d->url), "http://127.0.0.1:%d", d->port);
    }
    (void)pthread_mutex_init(&d->lock, NULL);
}

static inline void daemon_clear(struct daemon *d)
{
    daemon_down(d);
    buf_clear(&d->rows);
    buf_clear(&d->beat);
    buf_clear(&d->claim);
    buf_clear(&d->report);
    (void)pthread_mutex_destroy(&d->lock);
    static const char *const files[] = {"spool.0", "spool.1", "report.json"};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", d->dir, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(d->dir);
}

static inline void daemon_set(struct daemon *d, enum daemon_mode mode)
{
    pthread_mutex_lock(&d->lock);
    d->mode = mode;
    pthread_mutex_unlock(&d->lock);
}

static inline int daemon_count(struct daemon *d, const int *n)
{
    pthread_mutex_lock(&d->lock);
    int count = *n;
    pthread_mutex_unlock(&d->lock);
    return count;
}

/* Until cond holds, 200 s at most: under a second on a quiet machine. */
#define wait_until(cond)                                                   \
    do {                                                                   \
        double until_s_ = clock_real.now_s(&clock_real) + 200;             \
        while (!(cond) && clock_real.now_s(&clock_real) < until_s_)        \
            (void)nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); \
    } while (0)

#endif
