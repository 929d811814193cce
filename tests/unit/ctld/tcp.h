/* tcp.h - requests to a rig over TCP, byte for byte. */
#ifndef MGPU_TESTS_UNIT_CTLD_TCP_H
#define MGPU_TESTS_UNIT_CTLD_TCP_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "tests/unit/ctld/rig.h"

/* From a loopback address other than 127.0.0.1 this is another machine, as
 * far as anybody can tell. */
static inline int tcp_dial(const struct rig *r, const char *from)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)inet_pton(AF_INET, from, &a.sin_addr);
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("bind %s failed", from);
    a.sin_port = htons((uint16_t)ctld_port(r->ctld));
    (void)inet_pton(AF_INET, "127.0.0.1", &a.sin_addr);
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
        tap_diag("connect from %s failed", from);
    return fd;
}

/* `headers`: whole lines. */
static inline void tcp_say(int fd, const char *method, const char *path,
                           const char *headers, const char *body)
{
    struct buf b = BUF_INIT;
    if (buf_addf(&b, NULL,
                 "%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n%s\r\n%s",
                 method, path, body ? strlen(body) : 0, headers,
                 body ? body : "") < 0 ||
        write(fd, buf_str(&b), b.len) != (ssize_t)b.len)
        tap_diag("not sent: %s", path);
    buf_clear(&b);
}

/* The status; all that comes until the end or `until` is in r->body. */
static inline int tcp_hear(struct rig *r, int fd, const char *until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char piece[4096];
    int status = 0;
    buf_reset(&r->body);
    for (;;) {
        int got = poll(&p, 1, 60000);
        if (got < 0 && errno == EINTR) /* a child of the test's */
            continue;
        if (got <= 0)
            break;
        ssize_t n = read(fd, piece, sizeof(piece));
        if (n <= 0 || buf_add(&r->body, piece, (size_t)n, NULL) < 0)
            break;
        if (until && has(r, until))
            break;
    }
    (void)sscanf(buf_str(&r->body), "HTTP/1.1 %d", &status);
    return status;
}

static inline int tcp(struct rig *r, const char *from, const char *method,
                      const char *path, const char *headers, const char *body)
{
    char all[4096];
    int fd = tcp_dial(r, from);
    (void)snprintf(all, sizeof(all), "Connection: close\r\n%s", headers);
    tcp_say(fd, method, path, all, body);
    int status = tcp_hear(r, fd, NULL);
    (void)close(fd);
    return status;
}

#endif
