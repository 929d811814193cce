/* web_service.h - mgpu-web --cluster: the page of a cluster as a service.
 *
 * It runs as a user of its own, which has no right at the daemon but to ask:
 * mgpu-ctld serves no browser. The daemon answers each of its requests as it
 * answers any user about the jobs of others.
 */
#ifndef MGPU_SCHEDULER_WEB_WEB_SERVICE_H
#define MGPU_SCHEDULER_WEB_WEB_SERVICE_H

#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct event_base; /* libevent */
struct web_service;

/* in   config  path of mgpu.yaml; borrowed
 *      url     of the daemon; NULL: controller.socket, else that of
 *              wire_default_url(); borrowed
 * out  text    the findings of mgpu.yaml are appended
 * err  those of web_cluster_load() and web_server_create() */
int web_service_create(struct event_base *base, const char *config,
                       const char *url, struct web_service **ret,
                       struct buf *text, struct error *err) MUST_CHECK;
void web_service_destroy(struct web_service *s); /* NULL is fine */

/* Reads mgpu.yaml and the token again. With another token all cookies are
 * worth nothing, with another address it listens there, and without one the
 * page is closed.
 *
 * err  as web_service_create(): what was in force stays, unless
 *      web_service_is_down() */
int web_service_reload(struct web_service *s, struct buf *text,
                       struct error *err) MUST_CHECK;
/* It listens nowhere: there is no address any more, or neither the new one nor
 * the old one could be had. */
bool web_service_is_down(const struct web_service *s);

const char *web_service_url(const struct web_service *s); /* has no token */

#endif
