/* http_listen.c - where the server is to be found and who comes, see
 * http_server.h.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "jobs/http/http_internal.h"

enum { BACKLOG = 128, REST_US = 200000, HOST_CAP = 256 };
/* A peer that has vanished (power, network) is noticed two minutes later:
 * when it takes nothing of what it is sent, or answers none of six probes
 * after a minute of silence. Streams have no other end. */
enum { SILENT_S = 60, PROBE_EVERY_S = 10, PROBES = 6, UNTAKEN_MS = 120000 };

/* Again in a moment; false: there is no telling when. */
static bool rest(struct http_server *s)
{
    struct timeval tv = {.tv_usec = REST_US};
    return evtimer_add(s->resume, &tv) == 0;
}

void http_listen_resume(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    for (size_t i = 0; i < s->n_listeners; i++)
        if (evconnlistener_enable(
                evhttp_bound_socket_get_listener(s->listeners[i])) < 0)
            (void)rest(s);
}

/* The callback for errors is given what evhttp has for its own, and there is no
 * way to give it a server. */
static struct {
    pthread_mutex_t lock;
    struct http_server *first;
} listening = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enlist(struct http_server *s, struct evhttp_bound_socket *b)
{
    (void)pthread_mutex_lock(&listening.lock);
    s->listeners[s->n_listeners++] = b;
    if (!s->is_listed) {
        s->next = listening.first;
        listening.first = s;
        s->is_listed = true;
    }
    (void)pthread_mutex_unlock(&listening.lock);
}

static void strike_out(struct http_server *s)
{
    (void)pthread_mutex_lock(&listening.lock);
    struct http_server **at = &listening.first;
    while (*at && *at != s)
        at = &(*at)->next;
    if (*at)
        *at = s->next;
    s->is_listed = false;
    (void)pthread_mutex_unlock(&listening.lock);
}

static bool has(const struct http_server *s, const struct evconnlistener *l)
{
    for (size_t i = 0; i < s->n_listeners; i++)
        if (evhttp_bound_socket_get_listener(s->listeners[i]) == l)
            return true;
    return false;
}

/* Out of descriptors, most likely: rest, or the loop spins. */
static void on_accept_error(struct evconnlistener *l, void *arg)
{
    (void)arg; /* evhttp's */
    (void)pthread_mutex_lock(&listening.lock);
    struct http_server *s = listening.first;
    while (s && !has(s, l))
        s = s->next;
    (void)pthread_mutex_unlock(&listening.lock);
    if (s && rest(s))
        (void)evconnlistener_disable(l);
}

/* epoll_ctl(2) may fail with ENOMEM. libevent logs that and forgets it, and the
 * connection would be deaf until its client leaves: ask for what it waits for
 * again, until that works. */
static void look_again(struct http_conn *c)
{
    if (c->hup && !event_pending(c->hup, EV_CLOSED | EV_TIMEOUT, NULL))
        (void)event_add(c->hup, NULL);
    short wants = bufferevent_get_enabled(c->bev);
    if (evbuffer_get_length(bufferevent_get_output(c->bev)) == 0)
        wants &= ~EV_WRITE;
    (void)bufferevent_enable(c->bev, wants);
}

void http_listen_look_again(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    for (struct http_conn *c = s->conns.next; c != &s->conns; c = c->next)
        if (http_conn_is_open(c))
            look_again(c);
}

void http_server_look_again(void)
{
    struct timeval tv = {.tv_usec = REST_US};
    (void)pthread_mutex_lock(&listening.lock);
    for (struct http_server *s = listening.first; s; s = s->next)
        if (!evtimer_pending(s->again, NULL))
            (void)evtimer_add(s->again, &tv);
    (void)pthread_mutex_unlock(&listening.lock);
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
    struct evconnlistener *l = evhttp_bound_socket_get_listener(b);
    evconnlistener_set_error_cb(l, on_accept_error);
    enlist(s, b);
    /* libevent has enabled it already, or has failed to and not said so.
     * http_server_close() closes it. */
    return evconnlistener_enable(l) == 0
               ? 0
               : error_set(err, ERR_NOMEM, "listen at '%s'", where);
}

void http_server_close(struct http_server *s)
{
    struct stat st;
    if (s->path[0] && lstat(s->path, &st) == 0 && st.st_ino == s->path_ino)
        (void)unlink(s->path);
    s->path[0] = '\0';
    strike_out(s);
    while (s->n_listeners > 0)
        evhttp_del_accept_socket(s->http, s->listeners[--s->n_listeners]);
    if (s->resume)
        (void)evtimer_del(s->resume);
}

/* ---- unix -----------------------------------------------------------------
 */

static int unix_address(const char *path, struct sockaddr_un *ret,
                        struct error *err)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(ret->sun_path))
        return error_set(err, ERR_CONFIG,
                         "socket path is longer than %zu bytes: '%s'",
                         sizeof(ret->sun_path) - 1, path);
    memcpy(ret->sun_path, path, strlen(path) + 1);
    return 0;
}

static int refuse(const char *path, pid_t pid, struct error *err)
{
    char who[48] = "";
    if (pid > 0)
        (void)snprintf(who, sizeof(who), ", process %ld", (long)pid);
    return error_set(err, ERR_STATE,
                     "another daemon answers at '%s'%s: stop it, or use "
                     "another socket",
                     path, who);
}

/* A child that a daemon has forked holds its sockets until it executes its own
 * program. When the daemon is killed right then, the socket outlives it for
 * that moment, and the next daemon must not be refused. */
enum { ORPHANED_MS = 10000, LOOK_MS = 5 };

/* Whether somebody listens there.
 * inout  pid  the process that called listen(2); unchanged while the backlog
 *             is full, since connect(2) then reaches nobody */
static int look_at(const struct sockaddr_un *addr, bool *ret_listens,
                   pid_t *pid, struct error *err)
{
    struct ucred peer = {.pid = 0};
    socklen_t len = sizeof(peer);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_sys(err, errno, "make a socket");
    int rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr));
    int why = rc < 0 ? errno : 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
        peer.pid > 0)
        *pid = peer.pid;
    (void)close(fd);
    if (why != 0 && why != EAGAIN && why != ECONNREFUSED)
        return error_sys(err, why, "connect '%s'", addr->sun_path);
    *ret_listens = why != ECONNREFUSED;
    return 0;
}

static bool is_gone(pid_t pid)
{
    return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

/* Succeeds if the path is free, or has a socket on which nobody listens any
 * more. */
static int check_path(const struct sockaddr_un *addr, bool *ret_is_there,
                      struct error *err)
{
    struct stat st;
    *ret_is_there = lstat(addr->sun_path, &st) == 0;
    if (!*ret_is_there)
        return errno == ENOENT ? 0
                               : error_sys(err, errno, "'%s'", addr->sun_path);
    if (!S_ISSOCK(st.st_mode))
        return error_set(err, ERR_STATE, "'%s' exists and is not a socket",
                         addr->sun_path);
    bool listens = false;
    pid_t pid = 0;
    int rc = look_at(addr, &listens, &pid, err);
    for (int ms = 0; rc == 0 && listens && is_gone(pid) && ms < ORPHANED_MS;
         ms += LOOK_MS) {
        (void)poll(NULL, 0, LOOK_MS);
        rc = look_at(addr, &listens, &pid, err);
    }
    if (rc < 0)
        return -1;
    return listens ? refuse(addr->sun_path, pid, err) : 0;
}

int http_server_may_listen_unix(const char *path, struct error *err)
{
    struct sockaddr_un addr;
    bool is_there;
    if (unix_address(path, &addr, err) < 0)
        return -1;
    return access(path, F_OK) < 0 ? 0 : check_path(&addr, &is_there, err);
}

static int clear_path(const struct sockaddr_un *addr, struct error *err)
{
    bool is_there;
    if (check_path(addr, &is_there, err) < 0)
        return -1;
    if (is_there && unlink(addr->sun_path) < 0)
        return error_sys(err, errno, "unlink '%s'", addr->sun_path);
    return 0;
}

/* Sets the group before the mode, so that the socket is never open to another
 * group. Nobody else can write to its directory. */
static int give_unix(const char *path, unsigned mode, int64_t gid,
                     struct error *err)
{
    int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    bool is_ours = fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
                   st.st_uid == geteuid();
    int rc = is_ours && (gid == 0 || fchownat(fd, "", (uid_t)-1, (gid_t)gid,
                                              AT_EMPTY_PATH) == 0)
                 ? chmod(path, (mode_t)mode)
                 : -1;
    if (rc < 0)
        rc = error_sys(err, errno, "give '%s' to its group", path);
    if (fd >= 0)
        (void)close(fd);
    return rc;
}

static int bind_unix(const char *path, unsigned mode, int64_t gid,
                     ino_t *ret_ino, struct error *err)
{
    struct sockaddr_un addr;
    struct stat st;
    if (unix_address(path, &addr, err) < 0 || clear_path(&addr, err) < 0)
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return error_sys(err, errno, "make a socket");
    mode_t old = umask(0177); /* never open wider, not for a moment */
    int rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    (void)umask(old);
    if (rc < 0 || lstat(path, &st) < 0 || listen(fd, BACKLOG) < 0) {
        (void)error_sys(err, errno, "listen at '%s'", path);
        (void)close(fd);
        return -1;
    }
    if (give_unix(path, mode, gid, err) < 0) {
        (void)unlink(path);
        (void)close(fd);
        return -1;
    }
    *ret_ino = st.st_ino;
    return fd;
}

int http_server_listen_unix(struct http_server *s, const char *path,
                            unsigned mode, int64_t gid, struct error *err)
{
    ino_t ino = 0;
    int fd = bind_unix(path, mode, gid, &ino, err);
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

/* ---- TCP ------------------------------------------------------------------
 */

struct where {
    char host[HOST_CAP]; /* "*": all */
    char port[6];
};

static int parse_where(const char *text, struct where *ret, struct error *err)
{
    bool bracket = text[0] == '[';
    size_t skip = bracket ? 1 : 0;
    size_t len = strcspn(text + skip, bracket ? "]" : ":");
    const char *rest = text + skip + len + (bracket && text[skip + len]);
    const char *port = *rest == ':' ? rest + 1 : "";
    size_t digits = strspn(port, "0123456789");
    if (len == 0 || len >= sizeof(ret->host) || digits == 0 || digits > 5 ||
        port[digits] || strtol(port, NULL, 10) > 65535)
        return error_set(err, ERR_CONFIG,
                         "'%.100s': expected HOST:PORT, [ADDRESS]:PORT or "
                         "*:PORT",
                         text);
    memcpy(ret->host, text + skip, len);
    ret->host[len] = '\0';
    memcpy(ret->port, port, digits + 1);
    return 0;
}

static int set_int(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value));
}

/* Accepted sockets inherit these options from the listening one. */
static int open_tcp(const struct addrinfo *ai)
{
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    IPPROTO_TCP);
    if (fd < 0)
        return -1;
    /* Without SO_REUSEADDR a restarted daemon waits for its predecessor's
     * connections to be forgotten, a minute. A reply is written in one piece,
     * so delaying small ones gains nothing. */
    if (set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1) == 0 &&
        set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
        set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
        set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, SILENT_S) == 0 &&
        set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EVERY_S) == 0 &&
        set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES) == 0 &&
        set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNTAKEN_MS) == 0 &&
        (ai->ai_family != AF_INET6 ||
         set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) == 0) &&
        bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

static bool is_elsewhere(int why)
{
    return why == EADDRNOTAVAIL || why == EAFNOSUPPORT;
}

static int fail_tcp(const char *where, int why, struct error *err)
{
    if (why == EADDRINUSE)
        return error_set(err, ERR_STATE, "listen at '%s': the port is in use",
                         where);
    if (is_elsewhere(why))
        return error_set(err, ERR_CONFIG,
                         "listen at '%s': no address of this machine", where);
    return error_sys(err, why, "listen at '%s'", where);
}

/* The first address that is this machine's; a port in use is no reason to
 * take another one. */
static int open_first(const struct addrinfo *ai, int family, int *ret_why)
{
    *ret_why = EADDRNOTAVAIL;
    for (; ai; ai = ai->ai_next) {
        if (family != AF_UNSPEC && ai->ai_family != family)
            continue;
        int fd = open_tcp(ai);
        if (fd >= 0)
            return fd;
        *ret_why = errno;
        if (!is_elsewhere(*ret_why))
            break;
    }
    return -1;
}

static int bind_tcp(const char *text, struct error *err)
{
    struct addrinfo *found = NULL, hints = {.ai_family = AF_UNSPEC,
                                            .ai_socktype = SOCK_STREAM,
                                            .ai_flags = AI_PASSIVE};
    struct where w;
    if (parse_where(text, &w, err) < 0)
        return -1;
    bool all = strcmp(w.host, "*") == 0;
    int rc = getaddrinfo(all ? NULL : w.host, w.port, &hints, &found);
    if (rc != 0)
        return error_set(err, ERR_CONFIG, "listen at '%s': %s", text,
                         rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
    /* "*" is [::], which takes IPv4 too, where there is IPv6. */
    int why = 0, fd = open_first(found, all ? AF_INET6 : AF_UNSPEC, &why);
    if (fd < 0 && all && is_elsewhere(why))
        fd = open_first(found, AF_INET, &why);
    freeaddrinfo(found);
    return fd >= 0 ? fd : fail_tcp(text, why, err);
}

static int port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t len = sizeof(a);
    memset(&a, 0, sizeof(a));
    if (getsockname(fd, (struct sockaddr *)&a, &len) < 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)&a)->sin6_port
                     : ((const struct sockaddr_in *)&a)->sin_port);
}

int http_server_listen_tcp(struct http_server *s, const char *where,
                           int *ret_port, struct error *err)
{
    int fd = bind_tcp(where, err);
    if (fd < 0)
        return -1;
    int port = port_of(fd);
    if (add_listener(s, fd, where, err) < 0)
        return -1;
    if (ret_port)
        *ret_port = port;
    return 0;
}

/* ---- who comes ------------------------------------------------------------
 */

static const char *address_text(const struct sockaddr_storage *a,
                                char ret[HTTP_PEER_CAP])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET)
        return inet_ntop(AF_INET, &v4->sin_addr, ret, HTTP_PEER_CAP);
    if (a->ss_family != AF_INET6)
        return NULL;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) /* of a socket that has both */
        return inet_ntop(AF_INET, v6->sin6_addr.s6_addr + 12, ret,
                         HTTP_PEER_CAP);
    return inet_ntop(AF_INET6, &v6->sin6_addr, ret, HTTP_PEER_CAP);
}

void http_net_of(const char *peer, char net[HTTP_PEER_CAP])
{
    struct in6_addr a;
    char text[INET6_ADDRSTRLEN];
    (void)snprintf(net, HTTP_PEER_CAP, "%s", peer);
    if (inet_pton(AF_INET6, peer, &a) != 1)
        return;
    memset(a.s6_addr + 8, 0, 8);
    if (inet_ntop(AF_INET6, &a, text, sizeof(text)))
        (void)snprintf(net, HTTP_PEER_CAP, "%.*s/64", INET6_ADDRSTRLEN - 6,
                       text);
}

int http_peer_of(int fd, int64_t *ret_uid, char peer[HTTP_PEER_CAP])
{
    struct sockaddr_storage a = {.ss_family = AF_UNSPEC};
    struct ucred cred;
    socklen_t len = sizeof(a), cred_len = sizeof(cred);
    *ret_uid = -1;
    peer[0] = '\0';
    if (getpeername(fd, (struct sockaddr *)&a, &len) < 0)
        return -1;
    if (a.ss_family != AF_UNIX)
        return address_text(&a, peer) ? 0 : -1;
    /* Asked of a unix socket only: of another kind it says nothing, and says
     * it with success and uid 4294967295. */
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cred_len) == 0)
        *ret_uid = (int64_t)cred.uid;
    return 0;
}
