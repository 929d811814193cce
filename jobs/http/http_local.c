/* http_local.c - who is at the other end of a TCP connection of this machine,
 * see http_local.h and sock_diag(7).
 *
 * The client's socket is the one whose own address is our peer's, and whose
 * peer is us.
 */
#include "jobs/http/http_local.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "jobs/http/http_internal.h"

struct question {
    struct nlmsghdr head;
    struct inet_diag_req_v2 req;
};

struct answer {
    struct nlmsghdr head;
    struct inet_diag_msg msg;
    char attributes[1024]; /* not asked for */
};

static void put_address(const struct sockaddr_storage *a, __be16 *ret_port,
                        __be32 ret[4])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)a;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)a;
    if (a->ss_family == AF_INET) {
        *ret_port = v4->sin_port;
        ret[0] = v4->sin_addr.s_addr;
    } else {
        *ret_port = v6->sin6_port;
        memcpy(ret, &v6->sin6_addr, sizeof(v6->sin6_addr));
    }
}

/* A socket that its process has closed has no inode, and uid 0. Where there is
 * none for the connection the kernel takes one that listens at its port. */
static int64_t uid_of(const struct inet_diag_msg *m)
{
    if (m->idiag_state == TCP_LISTEN)
        return HTTP_LOCAL_UNKNOWN;
    if (m->idiag_state != TCP_ESTABLISHED || m->idiag_inode == 0)
        return HTTP_LOCAL_LEFT;
    return (int64_t)m->idiag_uid;
}

/* The kernel answers before send(2) returns. */
static int64_t ask(const struct question *q)
{
    struct answer a;
    int64_t uid = HTTP_LOCAL_UNKNOWN;
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (fd < 0)
        return uid;
    if (send(fd, q, sizeof(*q), 0) == (ssize_t)sizeof(*q)) {
        ssize_t n = recv(fd, &a, sizeof(a), MSG_DONTWAIT);
        if (n >= (ssize_t)(sizeof(a.head) + sizeof(a.msg)) &&
            a.head.nlmsg_type == SOCK_DIAG_BY_FAMILY)
            uid = uid_of(&a.msg);
    }
    (void)close(fd);
    return uid;
}

static bool is_established(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    memset(&info, 0, sizeof(info));
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_state == TCP_ESTABLISHED;
}

int64_t http_local_uid_of(int fd)
{
    struct sockaddr_storage peer, own;
    socklen_t peer_len = sizeof(peer), own_len = sizeof(own);
    struct question q = {
        .head = {.nlmsg_len = sizeof(q),
                 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                 .nlmsg_flags = NLM_F_REQUEST},
        .req = {.sdiag_protocol = IPPROTO_TCP,
                .idiag_states = UINT32_MAX,
                .id = {.idiag_cookie = {INET_DIAG_NOCOOKIE,
                                        INET_DIAG_NOCOOKIE}}},
    };
    memset(&peer, 0, sizeof(peer));
    memset(&own, 0, sizeof(own));
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_len) < 0 ||
        getsockname(fd, (struct sockaddr *)&own, &own_len) < 0)
        return HTTP_LOCAL_LEFT;
    if (peer.ss_family != AF_INET && peer.ss_family != AF_INET6)
        return HTTP_LOCAL_UNKNOWN;
    q.req.sdiag_family = (__u8)peer.ss_family;
    put_address(&peer, &q.req.id.idiag_sport, q.req.id.idiag_src);
    put_address(&own, &q.req.id.idiag_dport, q.req.id.idiag_dst);
    int64_t uid = ask(&q);
    /* What was said of a client that has left by now may be of another. */
    return is_established(fd) ? uid : HTTP_LOCAL_LEFT;
}

int64_t http_local_uid(const struct http_exchange *x)
{
    return x->conn ? http_local_uid_of(x->conn->fd) : HTTP_LOCAL_LEFT;
}
