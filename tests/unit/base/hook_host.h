/* hook_host.h - a server that is called and misbehaves as it is told to, in a
 * thread. It understands no more of HTTP than where a request ends. */
#ifndef MGPU_TESTS_BASE_HOOK_HOST_H
#define MGPU_TESTS_BASE_HOOK_HOST_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum hook_how {
    HOOK_OK,
    HOOK_FAILS,    /* 500 */
    HOOK_ABSENT,   /* 404 */
    HOOK_MOVED,    /* 302 */
    HOOK_HANGS,    /* accepts, and never answers */
    HOOK_HUGE,     /* 200, and then a gigabyte */
    HOOK_HUGE_500, /* the same after 500 */
    HOOK_HEADS,    /* headers without end, and no status that is final */
    HOOK_N
};
static const char *const hook_hows[HOOK_N] = {
    "ok", "fails", "absent", "moved", "hangs", "huge", "huge-500", "heads"};

struct hook_host {
    _Atomic int how;       /* enum hook_how */
    _Atomic int n_failing; /* so many fail before that */
    int fd, port, stop[2];
    const char *file; /* bodies are appended to it, a line each; NULL */
    pthread_t thread;
    int hung[256], n_hung;
    _Atomic int n_requests;
    _Atomic int64_t n_sent; /* bytes of answers */
    pthread_mutex_t lock;
    char last[16384]; /* the last request */
};

static inline int64_t hook_send(struct hook_host *h, int fd, const char *text,
                                size_t len)
{
    ssize_t n = send(fd, text, len, MSG_NOSIGNAL);
    h->n_sent += n > 0 ? n : 0;
    return n;
}

static inline bool hook_is_whole(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *len = strcasestr(text, "Content-Length:");
    return end && (!len || strlen(end + 4) >= strtoul(len + 15, NULL, 10));
}

static inline void hook_hear(struct hook_host *h, int fd)
{
    char text[sizeof(h->last)] = "";
    size_t len = 0;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (len < sizeof(text) - 1 && !hook_is_whole(text) &&
           poll(&p, 1, 20000) > 0) {
        ssize_t n = read(fd, text + len, sizeof(text) - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
        text[len] = '\0';
    }
    const char *body = strstr(text, "\r\n\r\n");
    FILE *f = h->file && body ? fopen(h->file, "a") : NULL;
    if (f) {
        (void)fprintf(f, "%s\n", body + 4);
        (void)fclose(f);
    }
    (void)pthread_mutex_lock(&h->lock);
    memcpy(h->last, text, len + 1);
    (void)pthread_mutex_unlock(&h->lock);
    h->n_requests++;
}

/* Returns whether fd is to stay open. */
static inline bool hook_answer(struct hook_host *h, int fd)
{
    static const char *const heads[HOOK_N] = {
        [HOOK_OK] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        [HOOK_FAILS] = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n",
        [HOOK_ABSENT] = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n",
        [HOOK_MOVED] = "HTTP/1.1 302 Away\r\nLocation: /else\r\n"
                       "Content-Length: 0\r\n\r\n",
        [HOOK_HUGE] = "HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n",
        [HOOK_HUGE_500] =
            "HTTP/1.1 500 No\r\nContent-Length: 1073741824\r\n\r\n",
        [HOOK_HEADS] = "HTTP/1.1 100 Continue\r\n",
    };
    static const char more[65536];
    static const char line[] = "X-More: and more and more and more\r\n";
    int how = h->n_failing > 0 ? HOOK_FAILS : h->how;
    h->n_failing -= h->n_failing > 0;
    if (how == HOOK_HANGS) {
        if (h->n_hung < (int)(sizeof(h->hung) / sizeof(h->hung[0])))
            h->hung[h->n_hung++] = fd;
        return true;
    }
    int64_t n = hook_send(h, fd, heads[how], strlen(heads[how]));
    if (how == HOOK_HUGE || how == HOOK_HUGE_500)
        for (int64_t left = 1 << 30; left > 0 && n > 0; left -= n)
            n = hook_send(h, fd, more, sizeof(more));
    if (how == HOOK_HEADS)
        while (n > 0)
            n = hook_send(h, fd, line, sizeof(line) - 1);
    return false;
}

static inline void *hook_main(void *arg)
{
    struct hook_host *h = arg;
    struct pollfd p[2] = {{.fd = h->fd, .events = POLLIN},
                          {.fd = h->stop[0], .events = POLLIN}};
    while (poll(p, 2, -1) > 0 && p[1].revents == 0) {
        int fd = accept(h->fd, NULL, NULL);
        if (fd < 0)
            continue;
        hook_hear(h, fd);
        if (!hook_answer(h, fd))
            (void)close(fd);
    }
    while (h->n_hung > 0)
        (void)close(h->hung[--h->n_hung]);
    return NULL;
}

/* On 127.0.0.1. */
static inline void hook_start(struct hook_host *h, enum hook_how how,
                              const char *file)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    memset(h, 0, sizeof(*h));
    h->how = (int)how;
    h->file = file;
    (void)pthread_mutex_init(&h->lock, NULL);
    h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(h->fd, (struct sockaddr *)&at, len) < 0 || listen(h->fd, 64) < 0 ||
        getsockname(h->fd, (struct sockaddr *)&at, &len) < 0 ||
        pipe(h->stop) < 0)
        abort();
    h->port = ntohs(at.sin_port);
    if (pthread_create(&h->thread, NULL, hook_main, h) != 0)
        abort();
}

static inline void hook_stop(struct hook_host *h)
{
    (void)close(h->stop[1]);
    (void)pthread_join(h->thread, NULL);
    (void)close(h->stop[0]);
    (void)close(h->fd);
    (void)pthread_mutex_destroy(&h->lock);
}

static inline bool hook_heard(struct hook_host *h, const char *text)
{
    (void)pthread_mutex_lock(&h->lock);
    bool has = strstr(h->last, text) != NULL;
    (void)pthread_mutex_unlock(&h->lock);
    return has;
}

#endif
