/* web_server.h - the page, its session, and the way to the daemon. */
#ifndef MGPU_SCHEDULER_WEB_WEB_SERVER_H
#define MGPU_SCHEDULER_WEB_WEB_SERVER_H

#include <stdbool.h>

#include "jobs/base/error.h"

struct event_base; /* libevent */
struct web_cluster;
struct web_server;

struct web_server_conf {
    const char *listen; /* "unix:PATH" or "HOST:PORT" */
    const char *daemon; /* unix:PATH or http://HOST:PORT */
    bool is_read_only;  /* passes on no request that changes something */
    /* The page of a cluster, read-only and for everybody whom these settings
     * admit; borrowed until web_server_renew(); NULL: this user's own page */
    const struct web_cluster *cluster;
};

/* Listens, from now on in the turns of the loop.
 *
 * err  ERR_USAGE an address other than loopback without is_read_only, or a
 *      socket in a directory that others may write to; those of
 *      http_server_listen_tcp() and _unix() */
int web_server_create(struct event_base *base,
                      const struct web_server_conf *conf,
                      struct web_server **ret, struct error *err) MUST_CHECK;
void web_server_destroy(struct web_server *w); /* NULL is fine */

/* Takes other settings of the page of a cluster, for the same address. With
 * another token the replies that have begun are cut.
 * err  that of web_guard_share(): nothing has changed */
int web_server_renew(struct web_server *w, const struct web_cluster *cluster,
                     struct error *err) MUST_CHECK;

/* Asks the daemon once for the name of its cluster, and waits for the answer. A
 * daemon that is away is no error. */
void web_server_learn(struct web_server *w);

/* The URL, with the token unless it is the page of a cluster; valid as long as
 * w. Behind a unix socket its port is WEB_SERVER_PORT, an example. */
enum { WEB_SERVER_PORT = 8080 };
const char *web_server_url(const struct web_server *w);

#endif
