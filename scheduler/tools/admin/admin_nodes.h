/* admin_nodes.h - mgpu-admin drain and resume for nodes. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_NODES_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_NODES_H

#include "scheduler/tools/common/client.h"

struct admin_nodes {
    const char *why; /* "": none */
    bool drains;     /* false: resumes them */
    bool json, quiet;
};

/* Tries each node and prints each result; if only one node was named, its
 * failure is the error.
 * out  ret_exit  the worst exit status of the nodes, if it is worse
 * err  ERR_INVAL a name or the reason is not UTF-8, and no request was sent;
 *      ERR_UNAVAIL the daemon went away, and some requests may have been
 *      carried out */
int admin_nodes(struct client *c, const struct admin_nodes *conf, char **nodes,
                int n, int *ret_exit, struct error *err) MUST_CHECK;

#endif
