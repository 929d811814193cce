/* load.c - loads a daemon over its socket, for tests/bench/ctld.sh.
 *
 *   load submit SOCKET CLIENTS SECONDS [WAITING [REST_MS]]
 *                                               durable submits, one by one,
 *                                               none while so many wait, so
 *                                               long after the last answer
 *   load get SOCKET PATH CLIENTS RATE SECONDS   GETs, RATE a second, 0: any
 *   load rows SOCKET JOB TOKEN RANKS SECONDS [REST_MS]
 *                                               metric rows, 1,000 a request,
 *                                               so long after the last answer
 *   load watch SOCKET N SECONDS AFTER           watchers, who know of all up
 *                                               to this event
 *
 * Each prints one line. A client has one connection, as the tools have.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"

static const char *path_of_socket;
static double until_s;

static double now_s(void)
{
    return clock_real.now_s(&clock_real);
}

static void die(const char *what)
{
    (void)fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int connect_to(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", path_of_socket);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        die(path_of_socket);
    return fd;
}

/* ---- one exchange ---------------------------------------------------------
 */
static void send_all(int fd, const char *p, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            die("send");
        p += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
}

/* The bytes of the whole answer, once they are known; 0: not yet. */
static size_t whole(const struct buf *in)
{
    const char *end = in->len > 0 ? strstr(in->data, "\r\n\r\n") : NULL;
    const char *len = end ? strcasestr(in->data, "\r\nContent-Length:") : NULL;
    if (!end)
        return 0;
    size_t body = len && len < end ? strtoul(len + 17, NULL, 10) : 0;
    return (size_t)(end - in->data) + 4 + body;
}

/* The status of the answer. */
static int exchange(int fd, struct buf *in, const char *request, size_t len)
{
    buf_reset(in);
    send_all(fd, request, len);
    for (size_t want = 0; want == 0 || in->len < want; want = whole(in)) {
        if (buf_reserve(in, 1 << 16, NULL) < 0)
            die("memory");
        ssize_t n = recv(fd, in->data + in->len, 1 << 16, 0);
        if (n <= 0)
            die("the daemon hung up");
        in->len += (size_t)n;
        in->data[in->len] = '\0';
    }
    return in->len > 12 ? (int)strtol(in->data + 9, NULL, 10) : 0;
}

/* ---- clients --------------------------------------------------------------
 */
enum { TIMES_MAX = 1 << 20 };
struct client {
    pthread_t thread;
    int i;
    double *times; /* owned */
    size_t n, n_bad;
    uint64_t n_rows;
};

static struct {
    const char *path, *job, *token;
    double rate;
    double waiting; /* 0: any number */
    int rest_ms;
} what;

static void took(struct client *c, double s, int status)
{
    c->n_bad += status < 200 || status > 299;
    if (c->n < TIMES_MAX)
        c->times[c->n++] = s;
}

/* Until fewer jobs wait than may; asked once for a few submits. */
static void wait_for_room(int fd, struct buf *in)
{
    static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: mgpu\r\n\r\n";
    static const char name[] = "mgpu_jobs{state=\"QUEUED\"} ";
    while (now_s() < until_s) {
        int status = exchange(fd, in, ask, sizeof(ask) - 1);
        const char *n = status == 200 ? strstr(in->data, name) : NULL;
        if (!n)
            die("no mgpu_jobs");
        if (strtod(n + sizeof(name) - 1, NULL) < what.waiting)
            return;
        (void)poll(NULL, 0, 50);
    }
}

static void *submits(void *arg)
{
    static const char body[] =
        "{\"spec\":{\"version\":1,\"kind\":\"command\",\"name\":\"load\","
        "\"command\":[\"true\"],\"resources\":{\"gpus\":1}}}";
    struct client *c = arg;
    struct buf in = BUF_INIT;
    int fd = connect_to();
    for (int n = 0; now_s() < until_s; n++) {
        char text[512];
        if (what.waiting > 0 && n % 8 == 0)
            wait_for_room(fd, &in);
        int len = snprintf(text, sizeof(text),
                           "POST /v1/jobs HTTP/1.1\r\nHost: mgpu\r\n"
                           "Idempotency-Key: %d-%d-%d\r\n"
                           "Content-Length: %zu\r\n\r\n%s",
                           (int)getpid(), c->i, n, sizeof(body) - 1, body);
        double began_s = now_s();
        int status = exchange(fd, &in, text, (size_t)len);
        took(c, now_s() - began_s, status);
        if (what.rest_ms > 0)
            (void)poll(NULL, 0, what.rest_ms);
    }
    buf_clear(&in);
    (void)close(fd);
    return NULL;
}

static void *gets(void *arg)
{
    struct client *c = arg;
    struct buf in = BUF_INIT;
    char text[512];
    int fd = connect_to();
    int len = snprintf(text, sizeof(text),
                       "GET %s HTTP/1.1\r\nHost: mgpu\r\n\r\n", what.path);
    double at_s = now_s();
    while (now_s() < until_s) {
        double began_s = now_s();
        int status = exchange(fd, &in, text, (size_t)len);
        took(c, now_s() - began_s, status);
        at_s += what.rate > 0 ? 1 / what.rate : 0;
        if (at_s > now_s())
            (void)poll(NULL, 0, (int)((at_s - now_s()) * 1e3));
    }
    buf_clear(&in);
    (void)close(fd);
    return NULL;
}

enum { ROWS_AT_ONCE = 1000 };

/* Its rank's spool, from the beginning. */
static void *rows(void *arg)
{
    struct client *c = arg;
    struct buf in = BUF_INIT, body = BUF_INIT;
    int fd = connect_to();
    long long offset = 0;
    for (long long at = 1; now_s() < until_s; at += ROWS_AT_ONCE) {
        char head[512];
        buf_reset(&body);
        for (long long i = at; i < at + ROWS_AT_ONCE; i++)
            if (buf_addf(&body, NULL,
                         "{\"iteration\":%lld,\"rank\":%d,\"epoch\":1,"
                         "\"started_at\":1763712000.5,\"t_iter\":0.031,"
                         "\"t_data\":0.001,\"t_forward\":0.01,"
                         "\"t_backward\":0.02,\"loss\":0.5,\"samples\":64}\n",
                         i, c->i) < 0)
                die("memory");
        int len = snprintf(head, sizeof(head),
                           "POST /v1/attempts/%s/1/rows?rank=%d&offset=%lld "
                           "HTTP/1.1\r\nHost: mgpu\r\n"
                           "Authorization: Bearer %s\r\n"
                           "Content-Length: %zu\r\n\r\n",
                           what.job, c->i, offset, what.token, body.len);
        double began_s = now_s();
        send_all(fd, head, (size_t)len);
        int status = exchange(fd, &in, buf_str(&body), body.len);
        took(c, now_s() - began_s, status);
        (void)poll(NULL, 0, what.rest_ms);
        if (status == 200) {
            offset += (long long)body.len;
            c->n_rows += ROWS_AT_ONCE;
        } else {
            at -= ROWS_AT_ONCE; /* busy: the worker keeps its rows */
            (void)poll(NULL, 0, 50);
        }
    }
    buf_clear(&in);
    buf_clear(&body);
    (void)close(fd);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(void *(*fn)(void *), int n_clients, double seconds)
{
    struct client *all = calloc((size_t)n_clients, sizeof(*all));
    double began_s = now_s();
    size_t n = 0, n_bad = 0;
    uint64_t n_rows = 0;
    until_s = began_s + seconds;
    for (int i = 0; all && i < n_clients; i++) {
        all[i].i = i;
        all[i].times = malloc(TIMES_MAX * sizeof(double));
        if (!all[i].times || pthread_create(&all[i].thread, NULL, fn, &all[i]))
            die("thread");
    }
    for (int i = 0; all && i < n_clients; i++) {
        (void)pthread_join(all[i].thread, NULL);
        n += all[i].n;
        n_bad += all[i].n_bad;
        n_rows += all[i].n_rows;
    }
    double s = now_s() - began_s;
    double *times = malloc((n + 1) * sizeof(double));
    size_t k = 0;
    for (int i = 0; times && all && i < n_clients; i++) {
        memcpy(times + k, all[i].times, all[i].n * sizeof(double));
        k += all[i].n;
        free(all[i].times);
    }
    if (!times || n == 0)
        die("nothing was answered");
    qsort(times, n, sizeof(double), by_value);
    (void)printf("%.0f/s, p50 %.2f ms, p99 %.2f ms, longest %.1f ms, "
                 "%zu refused",
                 (double)n / s, times[n / 2] * 1e3, times[n * 99 / 100] * 1e3,
                 times[n - 1] * 1e3, n_bad);
    if (n_rows > 0)
        (void)printf(", %.0f rows/s, %llu rows", (double)n_rows / s,
                     (unsigned long long)n_rows);
    (void)printf("\n");
    free(times);
    free(all);
}

/* ---- watchers -------------------------------------------------------------
 */
static void watch(int n, double seconds, const char *after)
{
    char text[160];
    int len = snprintf(text, sizeof(text),
                       "GET /v1/watch?after=%s HTTP/1.1\r\nHost: mgpu\r\n\r\n",
                       after);
    int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t n_bytes = 0, n_lines = 0, n_lost = 0;
    char *in = malloc(1 << 16);
    for (int i = 0; i < n; i++) {
        struct epoll_event ev = {.events = EPOLLIN, .data.fd = connect_to()};
        send_all(ev.data.fd, text, (size_t)len);
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, ev.data.fd, &ev) < 0)
            die("epoll");
    }
    double began_s = now_s();
    until_s = began_s + seconds;
    while (in && now_s() < until_s) {
        struct epoll_event ready[64];
        int k = epoll_wait(epoll_fd, ready, 64, 100);
        for (int i = 0; i < k; i++) {
            ssize_t got = recv(ready[i].data.fd, in, 1 << 16, 0);
            if (got <= 0) {
                n_lost++;
                (void)close(ready[i].data.fd);
                continue;
            }
            n_bytes += (uint64_t)got;
            for (ssize_t at = 0; at < got; at++)
                n_lines += in[at] == '\n' && at > 0 && in[at - 1] == '}';
        }
    }
    (void)printf("%d watchers, %llu lost, %.0f lines/s, %.1f MB/s\n", n,
                 (unsigned long long)n_lost,
                 (double)n_lines / (now_s() - began_s),
                 (double)n_bytes / (now_s() - began_s) / 1e6);
    free(in);
    (void)close(epoll_fd);
}

static int number(const char *text)
{
    return (int)strtol(text, NULL, 10);
}

static double real(const char *text)
{
    return strtod(text, NULL);
}

int main(int argc, char **argv)
{
    const char *verb = argc > 3 ? argv[1] : "";
    path_of_socket = argc > 2 ? argv[2] : "";
    if (strcmp(verb, "submit") == 0 && argc >= 5 && argc <= 7) {
        what.waiting = argc > 5 ? real(argv[5]) : 0;
        what.rest_ms = argc > 6 ? number(argv[6]) : 0;
        run(submits, number(argv[3]), real(argv[4]));
    } else if (strcmp(verb, "get") == 0 && argc == 7) {
        what.path = argv[3];
        what.rate = real(argv[5]);
        run(gets, number(argv[4]), real(argv[6]));
    } else if (strcmp(verb, "rows") == 0 && (argc == 7 || argc == 8)) {
        what.job = argv[3];
        what.token = argv[4];
        what.rest_ms = argc == 8 ? number(argv[7]) : 0;
        run(rows, number(argv[5]), real(argv[6]));
    } else if (strcmp(verb, "watch") == 0 && argc == 6) {
        watch(number(argv[3]), real(argv[4]), argv[5]);
    } else {
        (void)fprintf(stderr, "load: see the head of tests/bench/load.c\n");
        return 64;
    }
    return 0;
}
