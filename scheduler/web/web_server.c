/* web_server.c - the page, its session, and the way to the daemon; see
 * web_server.h.
 *
 * No request is logged, so no token is.
 */
#include "scheduler/web/web_server.h"

#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/version.h"
#include "jobs/conf/conf_web.h"
#include "jobs/http/http_local.h"
#include "jobs/http/http_server.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/web/http_upstream.h"
#include "scheduler/web/http_whatif.h"
#include "scheduler/web/web_cluster.h"
#include "scheduler/web/web_files.h"
#include "scheduler/web/web_guard.h"
#include "scheduler/web/web_listen.h"
#include "scheduler/web/web_path.h"

/* A browser has six connections to a host, and streams keep theirs. */
enum { CLIENTS = 128, BODY_MAX_BYTES = 2 << 20 };
static const double request_s = 30, header_s = 10, idle_s = 30;
static const struct web_whatif_conf whatif = {.limit_s = 300,
                                              .max_bytes = 4 << 20};

/* The page of a cluster: the daemon takes 64 connections of a user
 * (limits.max_clients_per_user), and all viewers together use no more than
 * PASSES of these. One address cannot take all of them. */
enum { CLIENTS_OF_NET = 16, PASSES = 56, STREAMS = 40, NO_BODY = 1 << 10 };
static const double cluster_request_s = 10, cluster_header_s = 5, still_s = 30;

struct web_server {
    struct http_server *http;
    struct web_upstream *up;
    struct web_whatif *whatif; /* NULL: read-only */
    struct web_guard guard;
    bool is_read_only, is_unix, is_cluster;
    char *daemon;         /* its URL; owned */
    char cluster[128];    /* "": the daemon did not answer at the start */
    char state_dir[1024]; /* of the daemon on this machine; "": not known */
    char url[384];
};

static const struct http_header headers[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' "
     "data:; connect-src 'self'; font-src 'self'; base-uri 'none'; "
     "form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"X-Frame-Options", "DENY"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {NULL, NULL},
};

/* ---- who may ask ----------------------------------------------------------
 */

static struct web_seen see(const struct http_exchange *x)
{
    return (struct web_seen){
        .method = http_method(x),
        .host = http_header(x, "Host"),
        .origin = http_header(x, "Origin"),
        .site = http_header(x, "Sec-Fetch-Site"),
        .cookie = http_header(x, "Cookie"),
        .mark = http_header(x, "X-Mgpu-Web"),
    };
}

/* A browser sends the cookie to every port of a host, and so to a server of
 * another user of this machine. So whoever has it must also be this user. Of
 * TCP the kernel may not know, and a proxy of this machine's is root's. */
static bool is_user(const struct web_server *w, int64_t uid)
{
    return w->is_cluster || uid == (int64_t)geteuid() ||
           (!w->is_unix && (uid == HTTP_LOCAL_UNKNOWN || uid == 0));
}

/* Before the first request: another user's connections must not take the room
 * of this one's. */
static bool is_shut_out(void *arg, int fd)
{
    const struct web_server *w = arg;
    return !is_user(w, http_local_uid_of(fd));
}

static int check_place(const struct web_server *w, struct http_exchange *x,
                       struct error *err)
{
    const struct web_seen s = see(x);
    if (!is_user(w, w->is_unix ? http_uid(x) : http_local_uid(x))) {
        http_add_header(x, "Connection", "close");
        return error_set(err, ERR_DENIED, "mgpu-web belongs to another user");
    }
    return web_guard_origin(&w->guard, &s, err);
}

static const char *no_session(const struct web_server *w)
{
    return w->is_cluster
               ? "no session: open the page with the token that your "
                 "administrators gave you, /?token=TOKEN"
               : "no session: open the URL with the token, which mgpu-web "
                 "printed when it started";
}

/* False: it was answered. */
static bool is_admitted(const struct web_server *w, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    const struct web_seen s = see(x);
    int rc = check_place(w, x, &err);
    if (rc == 0 && !web_guard_has_session(&w->guard, &s))
        rc = error_set(&err, ERR_DENIED, "%s", no_session(w));
    if (rc < 0)
        http_reply_err(x, &err);
    return rc == 0;
}

/* ---- the page -------------------------------------------------------------
 */

static void reply_line(struct http_exchange *x, int status, const char *line)
{
    http_reply_text(x, status, "text/plain; charset=utf-8", line, strlen(line));
}

static void reply_file(struct http_exchange *x, const struct web_file *f)
{
    char etag[WEB_ETAG_CAP];
    struct error err = ERROR_INIT;
    const char *has = http_header(x, "If-None-Match");
    if (web_files_etag(f, etag, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    bool is_same = has && strcmp(has, etag) == 0;
    http_add_header(x, "ETag", etag);
    http_add_header(x, "Cache-Control", "no-cache");
    http_reply_text(x, is_same ? 304 : 200, web_files_type(f), f->data,
                    is_same ? 0 : (size_t)(f->end - f->data));
}

static const char no_token[] =
    "Open the URL with the token: mgpu-web printed it where it was started.\n";
static const char no_token_of_cluster[] =
    "Open the page with the token that your administrators gave you: "
    "/?token=TOKEN.\n";
static const char wrong_token[] =
    "The token is wrong: it is another mgpu-web's, or one that has ended.\n";
static const char wrong_token_of_cluster[] =
    "The token is wrong, or another one has replaced it.\n";

static void serve_file(void *arg, struct http_exchange *x)
{
    const struct web_server *w = arg;
    const char *name = http_param(x, 0), *within = http_param(x, 1);
    const struct web_file *f =
        web_files_find(name ? name : "index.html", within);
    struct error err = ERROR_INIT;
    const struct web_seen s = see(x);
    if (check_place(w, x, &err) < 0)
        reply_line(x, 403, err.msg);
    else if (!web_guard_has_session(&w->guard, &s))
        reply_line(x, 403, w->is_cluster ? no_token_of_cluster : no_token);
    else if (!f)
        reply_line(x, 404, "The page has no such file.\n");
    else
        reply_file(x, f);
}

/* The token becomes a cookie, and leaves the address bar. */
static void serve_root(void *arg, struct http_exchange *x)
{
    const struct web_server *w = arg;
    char cookie[WEB_COOKIE_CAP];
    struct error err = ERROR_INIT;
    const struct web_seen s = see(x);
    const char *token = http_query(x, "token");
    if (!token) {
        serve_file(arg, x);
    } else if (check_place(w, x, &err) < 0) {
        reply_line(x, 403, err.msg);
    } else if (!w->guard.is_open && !web_guard_is_token(&w->guard, token)) {
        reply_line(x, 403,
                   w->is_cluster ? wrong_token_of_cluster : wrong_token);
    } else {
        web_guard_cookie(&w->guard, &s, true, cookie);
        if (!w->guard.is_open)
            http_add_header(x, "Set-Cookie", cookie);
        http_add_header(x, "Location", "/");
        reply_line(x, 303, "");
    }
}

static void reply_object(struct http_exchange *x, json_t *o)
{
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    struct error err = ERROR_INIT;
    json_decref(o);
    if (text) {
        http_reply_json(x, 200, text, strlen(text));
    } else {
        (void)error_set(&err, ERR_NOMEM, "out of memory");
        http_reply_err(x, &err);
    }
    free(text);
}

static void serve_config(void *arg, struct http_exchange *x)
{
    const struct web_server *w = arg;
    if (!is_admitted(w, x))
        return;
    const struct passwd *pw = w->is_cluster ? NULL : getpwuid(geteuid());
    json_t *uid = w->is_cluster ? NULL : json_integer((json_int_t)geteuid());
    reply_object(x,
                 json_pack("{s:s, s:s, s:s?, s:o?, s:b, s:b, s:s?}", "schema",
                           "mgpu.web/1", "version", MGPU_VERSION, "user",
                           pw ? pw->pw_name : NULL, "uid", uid, "read_only",
                           w->is_read_only, "is_cluster", w->is_cluster,
                           "cluster", w->cluster[0] ? w->cluster : NULL));
}

static void serve_logout(void *arg, struct http_exchange *x)
{
    struct web_server *w = arg;
    struct error err = ERROR_INIT;
    char cookie[WEB_COOKIE_CAP];
    const struct web_seen s = see(x);
    if (!is_admitted(w, x))
        return;
    if (w->is_cluster) { /* the cookie is everybody's */
        (void)error_set(&err, ERR_DENIED,
                        "the page of the cluster is "
                        "read-only");
        http_reply_err(x, &err);
        return;
    }
    if (web_guard_forget(&w->guard, &err) < 0) {
        http_reply_err(x, &err);
        return;
    }
    web_upstream_cut_streams(w->up);
    if (w->whatif)
        web_whatif_stop(w->whatif);
    web_guard_cookie(&w->guard, &s, false, cookie);
    http_add_header(x, "Set-Cookie", cookie);
    reply_object(x, json_pack("{s:s}", "schema", "mgpu.web/1"));
}

static void serve_daemon(void *arg, struct http_exchange *x)
{
    const struct web_server *w = arg;
    struct error err = ERROR_INIT;
    if (!is_admitted(w, x))
        return;
    int rc = web_path_check(http_target(x), &err);
    if (rc == 0 && w->is_read_only && strcmp(http_method(x), "GET") != 0)
        rc = error_set(&err, ERR_DENIED,
                       "this page is read-only (mgpu-web --read-only)");
    if (rc == 0 && w->is_cluster)
        rc = web_path_check_shown(http_target(x), &err);
    if (rc < 0)
        http_reply_err(x, &err);
    else
        web_upstream_pass(w->up, x);
}

static void serve_may_simulate(void *arg, struct http_exchange *x)
{
    const struct web_server *w = arg;
    struct error err = ERROR_INIT;
    if (!is_admitted(w, x))
        return;
    int rc = web_whatif_check(w->whatif, w->state_dir, &err);
    reply_object(x, json_pack("{s:s, s:s?}", "schema", "mgpu.whatif/1", "why",
                              rc < 0 ? err.msg : NULL));
}

static void serve_simulate(void *arg, struct http_exchange *x)
{
    struct web_server *w = arg;
    if (is_admitted(w, x))
        web_whatif_run(w->whatif, w->state_dir, x);
}

/* The first N_RUNS are absent when read-only. */
enum { N_RUNS = 2 };
static const struct http_route routes[] = {
    {"GET", "/web/whatif", serve_may_simulate},
    {"POST", "/web/whatif", serve_simulate},
    {"GET", "/", serve_root},
    {"GET", "/web/config", serve_config},
    {"POST", "/web/logout", serve_logout},
    {"GET", "/v1/*", serve_daemon},
    {"POST", "/v1/*", serve_daemon},
    {"GET", "/:file", serve_file},
    {"GET", "/:folder/:file", serve_file},
    {NULL, NULL, NULL},
};

/* ---- its life -------------------------------------------------------------
 */

/* in   host  of its address; NULL: a unix socket */
static int set_guard(struct web_server *w, const struct web_server_conf *conf,
                     const char *host, int port, struct error *err)
{
    bool is_public = host && !conf_web_is_loopback(host);
    if (web_guard_init(&w->guard, port, is_public, host, err) < 0)
        return -1;
    return conf->cluster ? web_server_renew(w, conf->cluster, err) : 0;
}

static void set_url(struct web_server *w, const char *host, int port)
{
    bool is_all = strcmp(host, "*") == 0;
    (void)snprintf(
        w->url, sizeof(w->url), "http://%s:%d/%s%s",
        is_all ? w->guard.own[1] : host, port,
        w->is_cluster ? "" : "?token=", w->is_cluster ? "" : w->guard.token);
}

static int listen_at(struct web_server *w, const struct web_server_conf *conf,
                     struct error *err)
{
    char host[WEB_NAME_CAP] = "";
    int port = 0;
    int64_t gid = conf->cluster ? conf->cluster->gid : 0;
    if (web_listen_at(w->http, conf->listen,
                      conf->cluster        ? WEB_LISTEN_CLUSTER
                      : conf->is_read_only ? WEB_LISTEN_READ_ONLY
                                           : WEB_LISTEN_OWN,
                      gid, host, &port, err) < 0 ||
        set_guard(w, conf, host[0] ? host : NULL, port, err) < 0)
        return -1;
    set_url(w, host[0] ? host : "localhost", host[0] ? port : WEB_SERVER_PORT);
    return 0;
}

int web_server_renew(struct web_server *w, const struct web_cluster *cluster,
                     struct error *err)
{
    const struct spec_list *hosts = &cluster->conf.controller.web_hosts;
    const char *token = cluster->token[0] ? cluster->token : NULL;
    bool is_same = strcmp(w->guard.token, cluster->token) == 0;
    if (web_guard_share(&w->guard, token, (const char *const *)hosts->items,
                        hosts->n, err) < 0)
        return -1;
    (void)snprintf(w->cluster, sizeof(w->cluster), "%s", cluster->conf.cluster);
    if (!is_same)
        web_upstream_cut_streams(w->up);
    return 0;
}

static struct http_server_conf http_conf(struct web_server *w, bool is_public)
{
    bool is_cluster = w->is_cluster;
    return (struct http_server_conf){
        .routes = w->is_read_only ? routes + N_RUNS : routes,
        .arg = w,
        .max_body_bytes = is_cluster ? NO_BODY : BODY_MAX_BYTES,
        .request_timeout_s = is_cluster ? cluster_request_s : request_s,
        .header_timeout_s = is_cluster ? cluster_header_s : header_s,
        .idle_timeout_s = idle_s,
        .is_shut_out = is_shut_out,
        .headers = headers,
        .max_clients = CLIENTS,
        .max_clients_per_uid = CLIENTS,
        .max_clients_per_net = is_public ? CLIENTS_OF_NET : CLIENTS,
    };
}

int web_server_create(struct event_base *base,
                      const struct web_server_conf *conf,
                      struct web_server **ret, struct error *err)
{
    struct web_server *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "web server");
    w->is_cluster = conf->cluster != NULL;
    w->is_read_only = conf->is_read_only || w->is_cluster;
    w->is_unix = web_listen_is_unix(conf->listen);
    w->daemon = strdup(conf->daemon);
    if (!w->daemon) {
        free(w);
        return error_set(err, ERR_NOMEM, "web server");
    }
    const struct web_upstream_conf up = {
        .url = conf->daemon,
        .is_others = w->is_cluster,
        .max_passes = w->is_cluster ? PASSES : 0,
        .max_streams = w->is_cluster ? STREAMS : 0,
        .still_s = w->is_cluster ? still_s : 0,
    };
    const struct http_server_conf http =
        http_conf(w, w->is_cluster && !web_listen_is_local(conf->listen));
    if (web_upstream_create(base, &up, &w->up, err) < 0 ||
        (!w->is_read_only &&
         web_whatif_create(base, &whatif, &w->whatif, err) < 0) ||
        http_server_create(base, &http, &w->http, err) < 0 ||
        listen_at(w, conf, err) < 0) {
        web_server_destroy(w);
        return -1;
    }
    *ret = w;
    return 0;
}

void web_server_learn(struct web_server *w)
{
    struct error err;
    struct client *c = NULL;
    json_t *o = NULL;
    if (client_create(w->daemon, 0, &c, &err) < 0)
        return;
    if (client_get(c, &o, &err, "/v1/status") == 0) {
        (void)snprintf(w->cluster, sizeof(w->cluster), "%s",
                       field_str(o, "cluster"));
        /* Behind a socket it is a folder of this machine. */
        if (strncmp(w->daemon, "unix:", 5) == 0)
            (void)snprintf(w->state_dir, sizeof(w->state_dir), "%s",
                           field_str(o, "state_dir"));
    }
    json_decref(o);
    client_destroy(c);
}

void web_server_destroy(struct web_server *w)
{
    if (!w)
        return;
    web_whatif_destroy(w->whatif); /* answers its client */
    http_server_destroy(w->http);  /* ends what it passes on */
    web_upstream_destroy(w->up);
    free(w->daemon);
    free(w);
}

const char *web_server_url(const struct web_server *w)
{
    return w->url;
}
