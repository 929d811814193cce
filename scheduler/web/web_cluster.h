/* web_cluster.h - the settings of the page of a cluster: controller.web_* of
 * mgpu.yaml, and the token that its file names. */
#ifndef MGPU_SCHEDULER_WEB_WEB_CLUSTER_H
#define MGPU_SCHEDULER_WEB_WEB_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "jobs/base/rng.h"
#include "jobs/conf/conf.h"

struct web_cluster {
    struct conf conf;
    char token[RNG_TOKEN_CAP]; /* "": the page needs none */
    int64_t gid;               /* of the unix socket; 0: none */
};

/* Reads the file, the token and the group.
 *
 * out  text  the findings of mgpu.yaml are appended, warnings too
 * err  those of conf_load(); ERR_CONFIG with the place in the file: there is no
 *      such group, the file of the token can be read or written by others, or
 *      has something else than 64 hexadecimal digits
 * own  web_cluster_clear() */
int web_cluster_load(const char *path, struct web_cluster *ret,
                     struct buf *text, struct error *err) MUST_CHECK;
void web_cluster_clear(struct web_cluster *c);

/* err  ERR_CONFIG with the place in the file: no controller.web_listen */
int web_cluster_check_page(const struct web_cluster *c,
                           struct error *err) MUST_CHECK;

/* Whether both are at the same address, for the same group. */
bool web_cluster_is_same_place(const struct web_cluster *a,
                               const struct web_cluster *b);

#endif
