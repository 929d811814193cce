/* http.c - libFuzzer: whatever a client sends, to a server as the daemon has
 * it: heads, chunks, bodies, several requests in a row.
 *
 * The server answers or hangs up, and asks nobody to wait: a request that is
 * whole has been answered when the loop has nothing more to do.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/http/http_server.h"

enum { BODY_MAX = 4096, TURNS = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct event_base *base;
static struct sockaddr_un at = {.sun_family = AF_UNIX};

static void look(void *arg, struct http_exchange *x)
{
    static const char ok[] = "{}";
    size_t len = 0;
    (void)arg;
    (void)http_body(x, &len);
    if (len > BODY_MAX || strlen(http_target(x)) == 0)
        abort();
    (void)http_param(x, 0);
    (void)http_query(x, "limit");
    (void)http_header(x, "Idempotency-Key");
    http_reply_json(x, 200, ok, sizeof(ok) - 1);
}

static const struct http_route routes[] = {{"POST", "/v1/jobs", look},
                                           {"GET", "/v1/jobs", look},
                                           {"GET", "/v1/jobs/:id", look},
                                           {"POST", "/v1/a/:b/:c/d", look},
                                           {NULL, NULL, NULL}};

static void leave(void)
{
    (void)unlink(at.sun_path);
}

static void start(void)
{
    static const struct http_server_conf conf = {.routes = routes,
                                                 .max_body_bytes = BODY_MAX,
                                                 .request_timeout_s = 5,
                                                 .max_clients = 64,
                                                 .max_clients_per_uid = 64};
    struct http_server *s = NULL;
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "/tmp/mgpu-fuzz-%d.sock",
                   (int)getpid());
    base = event_base_new();
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    if (!base || http_server_create(base, &conf, &s, NULL) < 0 ||
        http_server_listen_unix(s, at.sun_path, 0600, 0, NULL) < 0 ||
        atexit(leave) != 0)
        abort();
}

/* Until the server has hung up; it must, for no more will be sent. */
static bool is_over(int fd)
{
    char got[4096];
    for (int i = 0; i < TURNS; i++) {
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
        for (;;) {
            ssize_t n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
            if (n == 0 || (n < 0 && errno != EAGAIN))
                return true;
            if (n < 0)
                break;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!base)
        start();
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        abort();
    /* Less than a socket takes, in two pieces. */
    size_t half = size / 2;
    (void)send(fd, data, half, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)event_base_loop(base, EVLOOP_NONBLOCK);
    (void)send(fd, data + half, size - half, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_WR);
    if (!is_over(fd))
        abort();
    (void)close(fd);
    for (int i = 0; i < 4; i++)
        (void)event_base_loop(base, EVLOOP_NONBLOCK);
    return 0;
}
