/* web_guard.h - whose requests mgpu-web answers.
 *
 * A request must be for a name that mgpu-web listens at (a page that reaches it
 * under another name, by DNS rebinding, is refused), must not come from a page
 * of another origin, and needs the cookie that the URL with the token sets. One
 * that changes something needs the header X-Mgpu-Web, which no form can send,
 * and an Origin.
 */
#ifndef MGPU_SCHEDULER_WEB_WEB_GUARD_H
#define MGPU_SCHEDULER_WEB_WEB_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"
#include "jobs/base/rng.h"

enum { WEB_NAME_CAP = 256, WEB_COOKIE_CAP = 192 };

struct web_guard {
    char token[RNG_TOKEN_CAP];   /* in the URL */
    char session[RNG_TOKEN_CAP]; /* in the cookie */
    int port;                    /* 0: any, behind a unix socket */
    bool is_public;              /* also under addresses and own[] */
    char own[2][WEB_NAME_CAP];   /* further names of this host; "" none */
    /* Of the page of a cluster alone. */
    bool is_cluster, is_open; /* is_open: it needs no token */
    const char *const *hosts; /* [n_hosts], further names, with any port: a
                                 proxy has its own; borrowed */
    size_t n_hosts;
};

/* What a request says of itself; NULL: nothing. */
struct web_seen {
    const char *method, *host, *origin;
    const char *site;   /* Sec-Fetch-Site */
    const char *cookie; /* Cookie */
    const char *mark;   /* X-Mgpu-Web */
};

/* Draws the token. in  own  the name it listens at beside the loopback ones;
 * NULL: none. err  that of rng_token() */
int web_guard_init(struct web_guard *g, int port, bool is_public,
                   const char *own, struct error *err) MUST_CHECK;

/* Makes it the guard of the page of a cluster, or gives it another token and
 * other names. The cookie depends on the token alone, so it outlives a restart
 * and is worth nothing with another token.
 *
 * in   token  of RNG_TOKEN_CAP - 1 digits; NULL: the page needs none
 *      hosts  [n], borrowed
 * err  that of digest_parts() */
int web_guard_share(struct web_guard *g, const char *token,
                    const char *const *hosts, size_t n,
                    struct error *err) MUST_CHECK;

/* Host, Origin, Sec-Fetch-Site and X-Mgpu-Web. err  ERR_DENIED */
int web_guard_origin(const struct web_guard *g, const struct web_seen *s,
                     struct error *err) MUST_CHECK;

/* Both compare in constant time. in  token  NULL: none */
bool web_guard_is_token(const struct web_guard *g, const char *token);
bool web_guard_has_session(const struct web_guard *g, const struct web_seen *s);

/* The value of Set-Cookie. Its name has the port, that of Host, for a browser
 * sends a cookie to all ports of a host. in  lasts  false: deletes it */
void web_guard_cookie(const struct web_guard *g, const struct web_seen *s,
                      bool lasts, char ret[WEB_COOKIE_CAP]);

/* Cookies that were given out are worth nothing from now on. */
int web_guard_forget(struct web_guard *g, struct error *err) MUST_CHECK;

#endif
