/* web_guard.c - whose requests mgpu-web answers, see web_guard.h. */
#include "scheduler/web/web_guard.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "jobs/http/digest_ssl.h"

int web_guard_init(struct web_guard *g, int port, bool is_public,
                   const char *own, struct error *err)
{
    *g = (struct web_guard){.port = port, .is_public = is_public};
    if (own)
        (void)snprintf(g->own[0], sizeof(g->own[0]), "%s", own);
    if (is_public && gethostname(g->own[1], sizeof(g->own[1]) - 1) < 0)
        g->own[1][0] = '\0';
    return rng_token(g->token, err) < 0 || rng_token(g->session, err) < 0 ? -1
                                                                          : 0;
}

int web_guard_share(struct web_guard *g, const char *token,
                    const char *const *hosts, size_t n, struct error *err)
{
    static const char use[] = "the cookie of mgpu-web --cluster";
    char session[DIGEST_HEX_CAP] = "";
    const struct digest_part parts[] = {{use, sizeof(use) - 1},
                                        {token, token ? strlen(token) : 0}};
    if (token && digest_parts(parts, 2, session, err) < 0)
        return -1;
    g->is_cluster = true;
    g->is_open = !token;
    g->hosts = hosts;
    g->n_hosts = n;
    (void)snprintf(g->token, sizeof(g->token), "%s", token ? token : "");
    (void)snprintf(g->session, sizeof(g->session), "%s", session);
    return 0;
}

int web_guard_forget(struct web_guard *g, struct error *err)
{
    return rng_token(g->session, err);
}

/* ---- names ----------------------------------------------------------------
 */

/* "NAME:PORT", "[ADDRESS]:PORT", "NAME". Port 80 goes without saying. */
static int split(const char *host, char name[WEB_NAME_CAP], int *ret_port)
{
    size_t len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    char *end = NULL;
    long port = 80;
    if (len == 0 || len >= WEB_NAME_CAP || len > strlen(host))
        return -1;
    memcpy(name, host, len);
    name[len] = '\0';
    if (host[len] == ':') {
        if (host[len + 1] < '0' || host[len + 1] > '9')
            return -1;
        port = strtol(host + len + 1, &end, 10);
        if (*end || port < 1 || port > 65535)
            return -1;
    } else if (host[len]) {
        return -1;
    }
    *ret_port = (int)port;
    return 0;
}

/* No name of a DNS server's leads here by an address. */
static bool is_address(const char *name)
{
    char bare[INET6_ADDRSTRLEN];
    unsigned char a[sizeof(struct in6_addr)];
    size_t len = strlen(name);
    if (inet_pton(AF_INET, name, a) == 1)
        return true;
    if (name[0] != '[' || len < 3 || len - 2 >= sizeof(bare))
        return false;
    memcpy(bare, name + 1, len - 2);
    bare[len - 2] = '\0';
    return inet_pton(AF_INET6, bare, a) == 1;
}

static bool is_ours(const struct web_guard *g, const char *host)
{
    static const char *const loopback[] = {"127.0.0.1", "localhost", "[::1]"};
    char name[WEB_NAME_CAP];
    int port = 0;
    if (split(host, name, &port) < 0)
        return false;
    for (size_t i = 0; i < g->n_hosts; i++)
        if (strcasecmp(name, g->hosts[i]) == 0)
            return true;
    if (g->port != 0 && port != g->port)
        return false;
    for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
        if (strcasecmp(name, loopback[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof(g->own) / sizeof(g->own[0]); i++)
        if (g->own[i][0] && strcasecmp(name, g->own[i]) == 0)
            return true;
    return g->is_public && is_address(name);
}

/* A proxy before the page of a cluster may speak https. */
static bool is_same_origin(const struct web_guard *g, const char *origin,
                           const char *host)
{
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < (g->is_cluster ? 2 : 1); i++) {
        size_t skip = strlen(schemes[i]);
        if (strncasecmp(origin, schemes[i], skip) == 0 &&
            strcasecmp(origin + skip, host) == 0)
            return true;
    }
    return false;
}

int web_guard_origin(const struct web_guard *g, const struct web_seen *s,
                     struct error *err)
{
    bool is_post = strcmp(s->method, "GET") != 0;
    if (!s->host || !is_ours(g, s->host))
        return error_set(err, ERR_DENIED,
                         g->is_cluster
                             ? "the page has no such name or port: an "
                               "administrator lists names in "
                               "controller.web_hosts"
                             : "mgpu-web does not listen at this name or port: "
                               "use the host and the port of the URL that it "
                               "printed");
    if (s->origin ? !is_same_origin(g, s->origin, s->host) : is_post)
        return error_set(err, ERR_DENIED, "the request has %s",
                         s->origin ? "the Origin of another page"
                                   : "no Origin: only the page may send it");
    /* Another port of the same host is the same site, and another user's. */
    if (s->site && strcmp(s->site, "same-origin") != 0 &&
        strcmp(s->site, "none") != 0)
        return error_set(err, ERR_DENIED,
                         "the request comes from a page of another site or "
                         "port: paste the URL into the address bar instead");
    if (is_post && (!s->mark || strcmp(s->mark, "1") != 0))
        return error_set(err, ERR_DENIED,
                         "a request that changes something needs the header "
                         "X-Mgpu-Web: 1");
    return 0;
}

/* ---- secrets --------------------------------------------------------------
 */

bool web_guard_is_token(const struct web_guard *g, const char *token)
{
    return token && !g->is_open && digest_same(g->token, token);
}

static int cookie_port(const struct web_guard *g, const struct web_seen *s)
{
    char name[WEB_NAME_CAP];
    int port = 0;
    if (g->port == 0 && s->host && split(s->host, name, &port) == 0)
        return port;
    return g->port;
}

bool web_guard_has_session(const struct web_guard *g, const struct web_seen *s)
{
    char name[32], value[RNG_TOKEN_CAP];
    if (g->is_open)
        return true;
    int n = snprintf(name, sizeof(name), "mgpu-web-%d=", cookie_port(g, s));
    bool has = false;
    for (const char *p = s->cookie; p && *p;) {
        size_t len = strcspn(p, ";");
        if (len == (size_t)n + RNG_TOKEN_CAP - 1 &&
            strncmp(p, name, (size_t)n) == 0) {
            memcpy(value, p + n, RNG_TOKEN_CAP - 1);
            value[RNG_TOKEN_CAP - 1] = '\0';
            has = digest_same(g->session, value) || has;
        }
        p += len;
        p += strspn(p, "; ");
    }
    return has;
}

void web_guard_cookie(const struct web_guard *g, const struct web_seen *s,
                      bool lasts, char ret[WEB_COOKIE_CAP])
{
    (void)snprintf(ret, WEB_COOKIE_CAP,
                   "mgpu-web-%d=%s; Path=/; HttpOnly; SameSite=Strict%s",
                   cookie_port(g, s), lasts ? g->session : "",
                   lasts ? "" : "; Max-Age=0");
}
