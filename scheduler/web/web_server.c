/* web_server.c - the page, its session, and the way to the daemon; see
 * web_server.h.
 *
 * No request is logged, so no token is.
 */
#include "scheduler/web/web_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/base/version.h"
#include "jobs/http/http_local.h"
#include "jobs/http/http_server.h"
#include "scheduler/tools/common/client.h"
#include "scheduler/web/http_upstream.h"
#include "scheduler/web/http_whatif.h"
#include "scheduler/web/web_files.h"
#include "scheduler/web/web_guard.h"
#include "scheduler/web/web_path.h"

/* A browser has six connections to a host, and streams keep theirs. */
enum { CLIENTS = 128, BODY_MAX_BYTES = 2 << 20 };
static const double request_s = 30, header_s = 10, idle_s = 30;
static const struct web_whatif_conf whatif = {.limit_s = 300,
                                              .max_bytes = 4 << 20};

struct web_server {
    struct http_server *http;
    struct web_upstream *up;
    struct web_whatif *whatif; /* NULL: read-only */
    struct web_guard guard;
    bool is_read_only, is_unix;
    const char *daemon;   /* its URL; borrowed */
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
    return uid == (int64_t)geteuid() ||
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

/* False: it was answered. */
static bool is_admitted(const struct web_server *w, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    const struct web_seen s = see(x);
    int rc = check_place(w, x, &err);
    if (rc == 0 && !web_guard_has_session(&w->guard, &s))
        rc = error_set(&err, ERR_DENIED,
                       "no session: open the URL with the token, which "
                       "mgpu-web printed when it started");
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

static const char no_session[] =
    "Open the URL with the token: mgpu-web printed it where it was started.\n";

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
        reply_line(x, 403, no_session);
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
    } else if (!web_guard_is_token(&w->guard, token)) {
        reply_line(x, 403,
                   "The token is wrong: it is another mgpu-web's, or one that "
                   "has ended.\n");
    } else {
        web_guard_cookie(&w->guard, &s, true, cookie);
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
    const struct passwd *pw = getpwuid(geteuid());
    reply_object(
        x, json_pack("{s:s, s:s, s:s?, s:I, s:b, s:s?}", "schema", "mgpu.web/1",
                     "version", MGPU_VERSION, "user", pw ? pw->pw_name : NULL,
                     "uid", (json_int_t)geteuid(), "read_only", w->is_read_only,
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

/* ---- where it listens -----------------------------------------------------
 */

/* The socket gives its clients this user's rights: nobody else may put another
 * one in its place. */
static int check_directory(const char *path, struct error *err)
{
    char dir[256];
    struct stat st;
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (len >= sizeof(dir))
        return error_set(err, ERR_USAGE, "--listen: the path is too long");
    (void)snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
    if (!slash)
        dir[0] = '.', dir[1] = '\0';
    else if (len == 0)
        dir[0] = '/', dir[1] = '\0';
    if (stat(dir, &st) < 0)
        return error_sys(err, errno, "--listen: '%s'", dir);
    if (st.st_uid != geteuid() || (st.st_mode & 022) != 0)
        return error_set(err, ERR_USAGE,
                         "--listen: '%s' must be your own directory, and "
                         "writable by nobody else",
                         dir);
    return 0;
}

static int listen_unix(struct web_server *w, const char *path,
                       struct error *err)
{
    w->is_unix = true;
    if (check_directory(path, err) < 0 ||
        web_guard_init(&w->guard, 0, false, NULL, err) < 0 ||
        http_server_listen_unix(w->http, path, 0600, 0, err) < 0)
        return -1;
    (void)snprintf(w->url, sizeof(w->url), "http://localhost:%d/?token=%s",
                   WEB_SERVER_PORT, w->guard.token);
    return 0;
}

static bool is_loopback(const char *name)
{
    struct in_addr a;
    return strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0 ||
           (inet_pton(AF_INET, name, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

static int listen_tcp(struct web_server *w, const char *where,
                      struct error *err)
{
    char name[WEB_NAME_CAP], place[WEB_NAME_CAP + 8];
    const char *colon = strrchr(where, ':');
    int port = 0;
    if (!colon || colon == where || (size_t)(colon - where) >= sizeof(name))
        return error_set(err, ERR_USAGE,
                         "--listen '%.100s': expected unix:PATH or HOST:PORT",
                         where);
    (void)snprintf(name, sizeof(name), "%.*s", (int)(colon - where), where);
    bool is_public = !is_loopback(name);
    if (is_public && !w->is_read_only)
        return error_set(
            err, ERR_USAGE,
            "--listen '%.60s': only 127.0.0.1 unless --read-only: traffic is "
            "not "
            "encrypted, and whoever reads the cookie has your rights; 'ssh -L' "
            "leads here from elsewhere",
            where);
    if (strcmp(name, "localhost") == 0) /* whatever /etc/hosts says of it */
        (void)snprintf(name, sizeof(name), "127.0.0.1");
    (void)snprintf(place, sizeof(place), "%s%s", name, colon);
    if (http_server_listen_tcp(w->http, place, &port, err) < 0 ||
        web_guard_init(&w->guard, port, is_public, name, err) < 0)
        return -1;
    bool is_all = strcmp(name, "*") == 0;
    (void)snprintf(w->url, sizeof(w->url), "http://%s:%d/?token=%s",
                   is_all ? w->guard.own[1] : name, port, w->guard.token);
    return 0;
}

int web_server_create(struct event_base *base,
                      const struct web_server_conf *conf,
                      struct web_server **ret, struct error *err)
{
    struct web_server *w = calloc(1, sizeof(*w));
    if (!w)
        return error_set(err, ERR_NOMEM, "web server");
    const struct http_server_conf http = {
        .routes = conf->is_read_only ? routes + N_RUNS : routes,
        .arg = w,
        .max_body_bytes = BODY_MAX_BYTES,
        .request_timeout_s = request_s,
        .header_timeout_s = header_s,
        .idle_timeout_s = idle_s,
        .is_shut_out = is_shut_out,
        .headers = headers,
        .max_clients = CLIENTS,
        .max_clients_per_uid = CLIENTS,
        .max_clients_per_net = CLIENTS,
    };
    w->is_read_only = conf->is_read_only;
    w->daemon = conf->daemon;
    if (web_upstream_create(base, conf->daemon, &w->up, err) < 0 ||
        (!conf->is_read_only &&
         web_whatif_create(base, &whatif, &w->whatif, err) < 0) ||
        http_server_create(base, &http, &w->http, err) < 0 ||
        (strncmp(conf->listen, "unix:", 5) == 0
             ? listen_unix(w, conf->listen + 5, err)
             : listen_tcp(w, conf->listen, err)) < 0) {
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
    free(w);
}

const char *web_server_url(const struct web_server *w)
{
    return w->url;
}
