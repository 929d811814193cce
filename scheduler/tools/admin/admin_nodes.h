/* admin_nodes.h - mgpu-admin drain and resume, of nodes. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_NODES_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_NODES_H

#include "scheduler/tools/common/client.h"

struct admin_nodes {
    const char *why; /* "": none */
    bool drains;     /* or uses them again */
    bool json, quiet;
};

/* Each is tried, and each is told of; of one alone that could not be, as an
 * error.
 * out  ret_exit  the worst of what the nodes came to, if it is worse
 * err  ERR_INVAL not UTF-8, of which nothing is done;  ERR_UNAVAIL the daemon
 *      is away, of which some may be */
int admin_nodes(struct client *c, const struct admin_nodes *conf, char **nodes,
                int n, int *ret_exit, struct error *err) MUST_CHECK;

#endif
