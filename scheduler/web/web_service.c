/* web_service.c - the page of a cluster as a service, see web_service.h. */
#include "scheduler/web/web_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "scheduler/web/web_cluster.h"
#include "scheduler/web/web_server.h"

enum { DAEMON_CAP = 256 };

struct web_service {
    struct event_base *base;
    const char *config, *url;
    char daemon[DAEMON_CAP]; /* its URL */
    struct web_cluster now;
    struct web_server *w; /* NULL: it listens nowhere */
};

static int find_daemon(const struct web_service *s, const struct web_cluster *c,
                       char ret[DAEMON_CAP], struct error *err)
{
    const char *socket = c->conf.controller.socket;
    if (!s->url && !socket)
        return wire_default_url(ret, DAEMON_CAP, err);
    int n = snprintf(ret, DAEMON_CAP, "%s%s",
                     s->url ? "" : "unix:", s->url ? s->url : socket);
    return n < DAEMON_CAP
               ? 0
               : error_set(err, ERR_USAGE, "the daemon's URL is too long");
}

static int listen_at(struct web_service *s, const struct web_cluster *c,
                     const char *daemon, struct error *err)
{
    const struct web_server_conf conf = {
        .listen = c->conf.controller.web_listen,
        .daemon = daemon,
        .is_read_only = true,
        .cluster = c,
    };
    return web_server_create(s->base, &conf, &s->w, err);
}

int web_service_create(struct event_base *base, const char *config,
                       const char *url, struct web_service **ret,
                       struct buf *text, struct error *err)
{
    struct web_service *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, ERR_NOMEM, "service");
    s->base = base;
    s->config = config;
    s->url = url;
    if (web_cluster_load(config, &s->now, text, err) < 0) {
        free(s);
        return -1;
    }
    if (web_cluster_check_page(&s->now, err) < 0 ||
        find_daemon(s, &s->now, s->daemon, err) < 0 ||
        listen_at(s, &s->now, s->daemon, err) < 0) {
        web_service_destroy(s);
        return -1;
    }
    *ret = s;
    return 0;
}

void web_service_destroy(struct web_service *s)
{
    if (!s)
        return;
    web_server_destroy(s->w);
    web_cluster_clear(&s->now);
    free(s);
}

/* The new address may have the port of the old one, so the old one goes first,
 * and comes back when the new one cannot be had. The server borrows *fresh. */
static int move(struct web_service *s, const struct web_cluster *fresh,
                const char *daemon, struct error *err)
{
    struct error again;
    web_server_destroy(s->w);
    s->w = NULL;
    if (listen_at(s, fresh, daemon, err) == 0) {
        (void)snprintf(s->daemon, sizeof(s->daemon), "%s", daemon);
        return 0;
    }
    if (listen_at(s, &s->now, s->daemon, &again) < 0)
        s->w = NULL;
    return -1;
}

static int become(struct web_service *s, const struct web_cluster *fresh,
                  struct error *err)
{
    char daemon[DAEMON_CAP];
    if (web_cluster_check_page(fresh, err) < 0) {
        web_server_destroy(s->w); /* who takes the key away closes the page */
        s->w = NULL;
        return -1;
    }
    if (find_daemon(s, fresh, daemon, err) < 0)
        return -1;
    bool is_same = web_cluster_is_same_place(fresh, &s->now) &&
                   strcmp(daemon, s->daemon) == 0;
    return is_same ? web_server_renew(s->w, fresh, err)
                   : move(s, fresh, daemon, err);
}

int web_service_reload(struct web_service *s, struct buf *text,
                       struct error *err)
{
    struct web_cluster fresh, old = s->now;
    if (web_cluster_load(s->config, &fresh, text, err) < 0)
        return -1;
    int rc = become(s, &fresh, err);
    if (rc == 0)
        s->now = fresh; /* what the server has borrowed stays where it is */
    web_cluster_clear(rc == 0 ? &old : &fresh);
    return rc;
}

bool web_service_is_down(const struct web_service *s)
{
    return !s->w;
}

const char *web_service_url(const struct web_service *s)
{
    return web_server_url(s->w);
}
