/* http_upstream.h - passes requests of the page on to the daemon.
 *
 * One event loop, no threads: each request is a transfer of libcurl beside the
 * others. Of the client's request only its method, its path and query, its body
 * and the header Idempotency-Key are passed on, never cookies or Authorization.
 * Over the unix socket the daemon sees the uid of this process, over TCP a
 * credential of MUNGE that this process makes.
 */
#ifndef MGPU_SCHEDULER_WEB_HTTP_UPSTREAM_H
#define MGPU_SCHEDULER_WEB_HTTP_UPSTREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct event_base; /* libevent */
struct http_exchange;
struct web_upstream;

struct web_upstream_conf {
    const char *url; /* unix:PATH or http://HOST:PORT */
    /* Each request has X-Mgpu-View: others, and a reply that does not say the
     * same is not passed on: it may have what only this user may see. */
    bool is_others;
    /* Requests at a time, and how many of them may be streams (/v1/watch);
     * 0: no limit. Past it a client is told to come again. */
    int32_t max_passes, max_streams;
    /* A client that is 256 KiB behind is cut when it has not taken all of them
     * for so long; 0: it may take any time. */
    double still_s;
};
/* err  ERR_INVAL another form of URL, ERR_NOMEM */
int web_upstream_create(struct event_base *base,
                        const struct web_upstream_conf *conf,
                        struct web_upstream **ret,
                        struct error *err) MUST_CHECK;
/* After http_server_destroy(), which ends the transfers of its exchanges. NULL
 * is fine. */
void web_upstream_destroy(struct web_upstream *u);

/* Answers x with what the daemon answers to the same method and target, which
 * the caller has checked (web_path.h). The reply is sent as it comes: when the
 * client does not take it, the daemon waits; when the client leaves, the
 * request to the daemon ends. 403, 502, 503 and 504 with an error in JSON when
 * the daemon cannot be asked. A reply that the daemon breaks off is cut, too.
 */
void web_upstream_pass(struct web_upstream *u, struct http_exchange *x);

/* Cuts the replies that have begun, and answers each other GET with 403: a
 * stream must not begin for a session that has ended. */
void web_upstream_cut_streams(struct web_upstream *u);

#endif
