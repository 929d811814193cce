/* worker_address.c - may a worker of this attempt be at that address?
 *
 * A token that was stolen from a file or the network is of no use elsewhere:
 * a worker over TCP must call from one of the nodes of its attempt's place,
 * whose addresses are in the inventory. Where less is known, less is asked:
 *
 * - a place that is not known yet (a claim may overtake the allocator's
 *   note), or was cut, stands for all nodes;
 * - when one of the nodes has no known address, it may be the one;
 * - a process on this very machine calls from 127.0.0.1, ::1 or an address of
 *   the machine, whatever name it was told; it fits when one of the nodes is
 *   this machine. Other loopback addresses must be a node's own.
 *
 * A node that calls through another interface than the inventory names is
 * refused: auth.workers_from is for that.
 */
#include "scheduler/ctld/request/worker_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "scheduler/ctld/ctld_internal.h"

struct look {
    const char *peer;
    bool peer_is_here; /* on this machine */
};

static bool has_address(const struct sockaddr *a, const char *text)
{
    char buf[INET6_ADDRSTRLEN] = "";
    if (a && a->sa_family == AF_INET)
        (void)inet_ntop(
            AF_INET, &((const struct sockaddr_in *)(const void *)a)->sin_addr,
            buf, sizeof(buf));
    else if (a && a->sa_family == AF_INET6)
        (void)inet_ntop(
            AF_INET6,
            &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, buf,
            sizeof(buf));
    return buf[0] && strcmp(buf, text) == 0;
}

/* Looked up each time: it is asked only when the addresses differ, and a
 * machine may get another one. */
static bool is_of_this_machine(const char *address)
{
    struct ifaddrs *all = NULL;
    bool found = false;
    if (getifaddrs(&all) < 0)
        return false;
    for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next)
        found = has_address(i->ifa_addr, address);
    freeifaddrs(all);
    return found;
}

static bool is_loopback(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
}

/* Where a process of this machine calls from. */
static bool is_here(const char *peer)
{
    if (is_loopback(peer))
        return strcmp(peer, "127.0.0.1") == 0 || strcmp(peer, "::1") == 0;
    return is_of_this_machine(peer);
}

static bool node_fits(const struct look *l, const char *address)
{
    if (address[0] == '\0' || strcmp(address, l->peer) == 0)
        return true;
    return l->peer_is_here &&
           (is_loopback(address) || is_of_this_machine(address));
}

static const struct alloc_node *node_named(const struct ctld *c,
                                           const char *name, size_t len)
{
    const struct alloc_node *n;
    for (size_t i = 0; (n = engine_node(c->engine, i)); i++)
        if (strncmp(n->name, name, len) == 0 && n->name[len] == '\0')
            return n;
    return NULL;
}

/* "n1:0,1 n2:0"; not when it is empty or ends in " ...". */
static bool is_whole(const char *place)
{
    size_t len = strlen(place);
    return len > 0 && (len < 3 || strcmp(place + len - 3, "...") != 0);
}

bool worker_address_fits(const struct ctld *c, const struct job *job,
                         const char *peer)
{
    struct look l = {.peer = peer, .peer_is_here = is_here(peer)};
    const char *at = job->place;
    const struct alloc_node *n;
    if (!is_whole(at)) {
        for (size_t i = 0; (n = engine_node(c->engine, i)); i++)
            if (node_fits(&l, n->address))
                return true;
        return !engine_node(c->engine, 0);
    }
    while (*at) {
        size_t len = strcspn(at, ": ");
        n = node_named(c, at, len);
        if (!n || node_fits(&l, n->address))
            return true;
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return false;
}
