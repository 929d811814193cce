/* http_listen.c - where the server is to be found, see http_server.h. */
#include <errno.h>
#include <event2/listener.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/base/http_private.h"

enum { BACKLOG = 128, REST_US = 200000 };

void http_listen_resume(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    for (size_t i = 0; i < s->n_listeners; i++)
        (void)evconnlistener_enable(
            evhttp_bound_socket_get_listener(s->listeners[i]));
}

/* Out of descriptors, most likely: rest, or the loop spins. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    struct http_server *s = arg;
    struct timeval tv = {.tv_usec = REST_US};
    if (evtimer_add(s->resume, &tv) == 0)
        (void)evconnlistener_disable(l);
}

/* Takes fd, also on failure. `where` is for the message. */
static int add_listener(struct http_server *s, int fd, const char *where,
                        struct error *err)
{
    struct evhttp_bound_socket *b =
        s->n_listeners < HTTP_LISTENERS_MAX
            ? evhttp_accept_socket_with_handle(s->http, fd)
            : NULL;
    if (!b) {
        (void)close(fd);
        return error_set(err, ERR_NOMEM, "listen at '%s'", where);
    }
    evconnlistener_set_error_cb(evhttp_bound_socket_get_listener(b),
                                on_accept_error);
    s->listeners[s->n_listeners++] = b;
    return 0;
}

void http_server_close(struct http_server *s)
{
    struct stat st;
    if (s->path[0] && lstat(s->path, &st) == 0 && st.st_ino == s->path_ino)
        (void)unlink(s->path);
    s->path[0] = '\0';
    while (s->n_listeners > 0)
        evhttp_del_accept_socket(s->http, s->listeners[--s->n_listeners]);
    if (s->resume)
        (void)evtimer_del(s->resume);
}

/* ---- unix -----------------------------------------------------------------
 */

/* Removes a socket that nobody listens on any more. */
static int clear_path(const struct sockaddr_un *addr, struct error *err)
{
    struct stat st;
    if (lstat(addr->sun_path, &st) < 0)
        return errno == ENOENT ? 0
                               : error_sys(err, errno, "'%s'", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERR_STATE, "'%s' exists and is not a socket",
                         addr->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_sys(err, errno, "socket");
    int rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    int why = errno;
    (void)close(fd);
    if (rc == 0 || why == EAGAIN) /* EAGAIN: alive, its backlog is full */
        return error_set(err, ERR_STATE, "another daemon answers at '%s'",
                         addr->sun_path);
    if (why != ECONNREFUSED)
        return error_sys(err, why, "connect '%s'", addr->sun_path);
    if (unlink(addr->sun_path) < 0)
        return error_sys(err, errno, "unlink '%s'", addr->sun_path);
    return 0;
}

static int bind_unix(const char *path, unsigned mode, ino_t *ret_ino,
                     struct error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct stat st;
    if (strlen(path) >= sizeof(addr.sun_path))
        return error_set(err, ERR_CONFIG,
                         "socket path is longer than %zu bytes: '%s'",
                         sizeof(addr.sun_path) - 1, path);
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (clear_path(&addr, err) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_sys(err, errno, "socket");
    mode_t old = umask(0177); /* never open wider, not for a moment */
    int rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    (void)umask(old);
    if (rc < 0 || chmod(path, (mode_t)mode) < 0 || lstat(path, &st) < 0 ||
        listen(fd, BACKLOG) < 0) {
        (void)error_sys(err, errno, "listen at '%s'", path);
        (void)close(fd);
        return -1;
    }
    *ret_ino = st.st_ino;
    return fd;
}

int http_server_listen_unix(struct http_server *s, const char *path,
                            unsigned mode, struct error *err)
{
    ino_t ino = 0;
    int fd = bind_unix(path, mode, &ino, err);
    if (fd < 0)
        return -1;
    if (add_listener(s, fd, path, err) < 0) {
        (void)unlink(path);
        return -1;
    }
    (void)snprintf(s->path, sizeof(s->path), "%s", path);
    s->path_ino = ino;
    return 0;
}
