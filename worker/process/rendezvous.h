/* rendezvous.h - host and port where the processes of a command meet.
 *
 * PyTorch's env:// and torchrun need the name of the first node, and a port
 * there that no other program uses. Rank 0 chooses both, and all ranks are
 * told.
 *
 * A port cannot be reserved for a program that starts later. Rank 0 holds the
 * port until all ranks know it, and so a program that asks for any port gets
 * another one. If a program takes this very port meanwhile, rank 0 finds out
 * and chooses another port, once. */
#ifndef MGPU_WORKER_PROCESS_RENDEZVOUS_H
#define MGPU_WORKER_PROCESS_RENDEZVOUS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "worker/comm/comm.h"

struct rendezvous {
    char host[HOST_NAME_MAX + 1];
    int32_t port;
};

/* Every rank calls it. On one node whose name has no address, the host is
 * 127.0.0.1.
 * err  ERR_UNAVAIL this rank cannot resolve the first node's name: both are
 *      named; or another program took two ports in a row. The other ranks may
 *      still wait: end the job */
int rendezvous_agree(struct comm *c, struct rendezvous *ret,
                     struct error *err) MUST_CHECK;

/* A port that is free on all addresses of this node. It stays bound until *fd
 * is closed; a program that sets SO_REUSEADDR can bind it nevertheless. */
int rendezvous_hold(int *ret_fd, int32_t *ret_port,
                    struct error *err) MUST_CHECK;
/* Whether another program listens on the port that fd holds. If not, fd
 * listens, so that no other can from now on. */
bool rendezvous_is_taken(int fd);
/* Whether a program listens on a port that we do not hold. */
bool rendezvous_in_use(int32_t port);

/* The cluster's name for this node, or else its host name. */
void rendezvous_node(char ret[HOST_NAME_MAX + 1]);

#endif
