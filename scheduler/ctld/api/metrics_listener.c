/* metrics_listener.c - the port for those who watch the daemon (Prometheus):
 * controller.metrics_listen.
 *
 * Whoever reaches it reads counters and whether the daemon works, and nothing
 * else: it is a server of its own with three paths, so that no request there
 * can come to one of the API's handlers. Nothing it says names a job or a
 * user.
 *
 * A page in somebody's browser may have its own name point to this host, and
 * read along (DNS rebinding). The browser says that name in Host, so names
 * that are none of ours are refused; addresses are fine.
 */
#include "scheduler/ctld/api/metrics_listener.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "jobs/base/log.h"
#include "scheduler/ctld/api/handlers.h"
#include "scheduler/ctld/api/openmetrics.h"
#include "scheduler/ctld/ctld_internal.h"

enum { CLIENTS = 16, CLIENTS_OF_ONE = 8, HOST_CAP = 256 };
/* Anybody may come, and there is little room: nobody rests long. */
static const double REQUEST_S = 5, HEADER_S = 2, IDLE_S = 60;

/* "name:9431" and "[::1]:9431" without port and brackets; "" none, or too
 * long to be a name. */
static void host_of(const char *text, char ret[HOST_CAP])
{
    bool bracket = text[0] == '[';
    size_t n = strcspn(text + bracket, bracket ? "]" : ":");
    ret[0] = '\0';
    if (n < HOST_CAP)
        (void)snprintf(ret, HOST_CAP, "%.*s", (int)n, text + bracket);
}

static bool is_address(const char *host)
{
    struct in6_addr a;
    return inet_pton(AF_INET, host, &a) == 1 ||
           inet_pton(AF_INET6, host, &a) == 1;
}

static bool is_ours(const struct ctld *c, const char *said)
{
    char host[HOST_CAP], own[HOST_CAP], name[HOST_NAME_MAX + 1] = "";
    host_of(said, host);
    host_of(c->parts.conf->metrics_listen, own);
    if (gethostname(name, sizeof(name)) < 0)
        name[0] = '\0';
    name[sizeof(name) - 1] = '\0';
    return is_address(host) || strcasecmp(host, "localhost") == 0 ||
           (*host &&
            (strcasecmp(host, own) == 0 || strcasecmp(host, name) == 0));
}

/* A client of HTTP/1.0 says no name; a browser always does. */
static bool admit(const struct ctld *c, struct http_exchange *x)
{
    const char *said = http_header(x, "Host");
    struct error err;
    if (!said || is_ours(c, said))
        return true;
    (void)error_set(&err, ERR_INVAL,
                    "'%.100s' is no name of this host: use its address, or the "
                    "name in controller.metrics_listen",
                    said);
    http_reply_err(x, &err);
    return false;
}

static void scrape_metrics(void *arg, struct http_exchange *x)
{
    if (admit(arg, x))
        openmetrics_reply(arg, x);
}

static void scrape_livez(void *arg, struct http_exchange *x)
{
    if (admit(arg, x))
        serve_livez(arg, x);
}

static void scrape_readyz(void *arg, struct http_exchange *x)
{
    if (admit(arg, x))
        serve_readyz(arg, x);
}

static const struct http_route routes[] = {
    {"GET", "/metrics", scrape_metrics},
    {"GET", "/livez", scrape_livez},
    {"GET", "/readyz", scrape_readyz},
    {NULL, NULL, NULL},
};

int metrics_listener_init(struct ctld *c, const struct http_server_conf *like,
                          struct error *err)
{
    const char *at = c->parts.conf->metrics_listen;
    struct http_server_conf http = {
        .routes = routes,
        .arg = c,
        .request_timeout_s = REQUEST_S,
        .header_timeout_s = HEADER_S,
        .idle_timeout_s = IDLE_S,
        .max_clients = CLIENTS,
        .max_clients_per_uid = CLIENTS_OF_ONE,
        .enter = like->enter,
        .leave = like->leave,
    };
    int port = 0;
    if (!at)
        return 0;
    if (http_server_create(loop_base(c->loop), &http, &c->scrape, err) < 0)
        return -1;
    if (http_server_listen_tcp(c->scrape, at, &port, err) < 0)
        return error_wrap(err, "controller.metrics_listen");
    log_notice("ctld", "metrics at=\"%s\" port=%d", at, port);
    return 0;
}
