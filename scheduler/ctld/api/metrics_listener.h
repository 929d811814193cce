/* metrics_listener.h - a port for Prometheus: controller.metrics_listen. */
#ifndef MGPU_SCHEDULER_CTLD_API_METRICS_LISTENER_H
#define MGPU_SCHEDULER_CTLD_API_METRICS_LISTENER_H

#include "jobs/base/error.h"

struct ctld;
struct http_server_conf;

/* Creates c->scrape, if the configuration asks for it.
 * in   like  its enter and leave are used here, too
 * err  as http_server_listen_tcp() */
int metrics_listener_init(struct ctld *c, const struct http_server_conf *like,
                          struct error *err) MUST_CHECK;

#endif
