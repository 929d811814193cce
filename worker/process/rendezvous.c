/* rendezvous.c - see rendezvous.h. */
#include "worker/process/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/base/log.h"

/* The other ranks may still be starting, and a name server may be slow. */
static const double agree_s = 120;

void rendezvous_node(char ret[HOST_NAME_MAX + 1])
{
    const char *name = getenv("SLURMD_NODENAME");
    if (name != NULL && name[0] != '\0')
        (void)snprintf(ret, HOST_NAME_MAX + 1, "%s", name);
    else if (gethostname(ret, HOST_NAME_MAX) < 0)
        ret[0] = '\0';
    ret[HOST_NAME_MAX] = '\0';
}

/* ---- the port ---------------------------------------------------------------
 */

/* A socket of all addresses, of both families where there are two: PyTorch
 * listens on both. */
static int open_any(int32_t port, struct error *err)
{
    const struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                                     .sin6_port = htons((uint16_t)port),
                                     .sin6_addr = IN6ADDR_ANY_INIT};
    const struct sockaddr_in four = {.sin_family = AF_INET,
                                     .sin_port = htons((uint16_t)port)};
    const int off = 0, on = 1;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_six = fd >= 0;
    if (is_six)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    else
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_sys(err, errno, "open a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const struct sockaddr *at =
        is_six ? (const struct sockaddr *)(const void *)&six
               : (const struct sockaddr *)(const void *)&four;
    if (bind(fd, at, is_six ? sizeof(six) : sizeof(four)) == 0)
        return fd;
    int code = errno;
    (void)close(fd);
    return error_sys(err, code, "bind port %d", port);
}

static int port_of(int fd, int32_t *ret, struct error *err)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } at = {.six = {.sin6_family = AF_INET6}};
    socklen_t len = sizeof(at);
    if (getsockname(fd, &at.any, &len) < 0)
        return error_sys(err, errno, "the port of a socket");
    *ret = ntohs(at.any.sa_family == AF_INET6 ? at.six.sin6_port
                                              : at.four.sin_port);
    return 0;
}

int rendezvous_hold(int *ret_fd, int32_t *ret_port, struct error *err)
{
    int fd = open_any(0, err);
    if (fd < 0)
        return -1;
    if (port_of(fd, ret_port, err) < 0) {
        (void)close(fd);
        return -1;
    }
    *ret_fd = fd;
    return 0;
}

bool rendezvous_is_taken(int fd)
{
    return listen(fd, 1) < 0;
}

bool rendezvous_in_use(int32_t port)
{
    struct error why = ERROR_INIT;
    int fd = open_any(port, &why);
    if (fd < 0)
        return true;
    bool is_taken = rendezvous_is_taken(fd);
    (void)close(fd);
    return is_taken;
}

/* ---- the name ---------------------------------------------------------------
 */

/* Returns 0, or a code for gai_strerror(3). */
static int resolve(const char *host)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int code = getaddrinfo(host, NULL, &hints, &found);
    if (code == 0)
        freeaddrinfo(found);
    return code;
}

static int check_name(const struct comm *c, const char *host, struct error *err)
{
    char here[HOST_NAME_MAX + 1];
    int code = resolve(host);
    if (code == 0)
        return 0;
    rendezvous_node(here);
    return error_set(err, ERR_UNAVAIL,
                     "rank %d on %.64s cannot resolve '%.64s', the first node "
                     "of the job and so MASTER_ADDR: %s",
                     c->rank, here, host,
                     code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
}

/* ---- all ranks --------------------------------------------------------------
 */

static int tell(struct comm *c, struct rendezvous *r, struct error *err)
{
    return comm_broadcast_now(c, r, sizeof(*r), 0, agree_s, err);
}

/* Waits until every rank has come here. */
static int meet(struct comm *c, struct error *err)
{
    int64_t none = 0;
    return comm_all_reduce_now(c, &none, 1, COMM_I64, COMM_MAX, agree_s, err);
}

/* Rank 0 checks that the port, which all ranks know now, is still ours, or else
 * takes another. */
static int keep_port(int *io_fd, struct rendezvous *r, struct error *err)
{
    int32_t taken = r->port;
    if (!rendezvous_is_taken(*io_fd))
        return 0;
    (void)close(*io_fd);
    *io_fd = -1;
    if (rendezvous_hold(io_fd, &r->port, err) < 0)
        return -1;
    log_warn("worker", "another program took port %d, MASTER_PORT is now %d",
             taken, r->port);
    if (!rendezvous_is_taken(*io_fd))
        return 0;
    return error_set(err, ERR_UNAVAIL,
                     "other programs took ports %d and %d, which were chosen "
                     "as MASTER_PORT",
                     taken, r->port);
}

int rendezvous_agree(struct comm *c, struct rendezvous *ret, struct error *err)
{
    struct rendezvous r = {.port = 0};
    int fd = -1;
    if (c->rank == 0) {
        rendezvous_node(r.host);
        if (c->size == c->local_size && resolve(r.host) != 0)
            (void)snprintf(r.host, sizeof(r.host), "127.0.0.1");
        if (rendezvous_hold(&fd, &r.port, err) < 0)
            return -1;
    }
    int rc = tell(c, &r, err);
    if (rc == 0)
        rc = check_name(c, r.host, err);
    if (rc == 0)
        rc = meet(c, err);
    if (rc == 0 && c->rank == 0)
        rc = keep_port(&fd, &r, err);
    if (rc == 0)
        rc = tell(c, &r, err);
    if (fd >= 0)
        (void)close(fd);
    if (rc == 0)
        *ret = r;
    return rc;
}
