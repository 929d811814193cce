/* http_webhook.c - see http_webhook.h. One libcurl multi handle. */
#include "jobs/http/http_webhook.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct post {
    struct post *next, **at; /* in http_hooks.posts */
    CURL *curl;
    struct curl_slist *headers;
    void *arg;
    bool is_literal, is_refused; /* refused: by our own rule of addresses */
    size_t head, body;           /* bytes that came */
};

struct http_hooks {
    CURLM *multi;
    struct post *posts; /* owned */
};

static void post_destroy(struct http_hooks *h, struct post *p)
{
    if (p->curl) {
        (void)curl_multi_remove_handle(h->multi, p->curl);
        curl_easy_cleanup(p->curl);
    }
    curl_slist_free_all(p->headers);
    free(p);
}

static void take_out(struct post *p)
{
    *p->at = p->next;
    if (p->next)
        p->next->at = p->at;
}

int http_hooks_create(struct http_hooks **ret, struct error *err)
{
    struct http_hooks *h = calloc(1, sizeof(*h));
    if (!h)
        return error_set(err, ERR_NOMEM, "hooks");
    /* Counted by libcurl, and safe to repeat. */
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK ||
        !(h->multi = curl_multi_init())) {
        free(h);
        return error_set(err, ERR_NOMEM, "hooks");
    }
    (void)curl_multi_setopt(h->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
    *ret = h;
    return 0;
}

void http_hooks_destroy(struct http_hooks *h)
{
    if (!h)
        return;
    for (struct post *p = h->posts, *next; p; p = next) {
        next = p->next;
        post_destroy(h, p);
    }
    (void)curl_multi_cleanup(h->multi);
    free(h);
}

/* ---- one request ----------------------------------------------------------
 */
static bool is_near_four(uint32_t a) /* host's order */
{
    return a >> 24 == 127 || a >> 24 == 0 || a >> 16 == 0xa9fe;
}

/* Of this machine, or of a network link. */
static bool is_near(const struct sockaddr *sa)
{
    struct in6_addr six;
    struct sockaddr_in four;
    uint32_t low;
    if (sa->sa_family == AF_INET) {
        memcpy(&four, sa, sizeof(four));
        return is_near_four(ntohl(four.sin_addr.s_addr));
    }
    if (sa->sa_family != AF_INET6)
        return true;
    memcpy(&six, (const char *)sa + offsetof(struct sockaddr_in6, sin6_addr),
           sizeof(six));
    memcpy(&low, &six.s6_addr[12], sizeof(low));
    return IN6_IS_ADDR_LOOPBACK(&six) || IN6_IS_ADDR_UNSPECIFIED(&six) ||
           IN6_IS_ADDR_LINKLOCAL(&six) ||
           (IN6_IS_ADDR_V4MAPPED(&six) && is_near_four(ntohl(low)));
}

static curl_socket_t on_open(void *arg, curlsocktype what,
                             struct curl_sockaddr *to)
{
    struct post *p = arg;
    if (what != CURLSOCKTYPE_IPCXN)
        return CURL_SOCKET_BAD;
    if (!p->is_literal && is_near(&to->addr)) {
        p->is_refused = true;
        return CURL_SOCKET_BAD;
    }
    return socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
}

/* An answer that goes on and on is cut: what it was is known by then, and what
 * it was not will not come. */
static size_t on_head(const char *data, size_t size, size_t n, void *arg)
{
    struct post *p = arg;
    (void)data;
    p->head += size * n;
    return p->head <= HTTP_HOOK_HEAD_MAX ? size * n : 0;
}

static size_t on_body(const char *data, size_t size, size_t n, void *arg)
{
    struct post *p = arg;
    (void)data;
    p->body += size * n;
    return p->body <= HTTP_HOOK_BODY_MAX ? size * n : 0;
}

static int set_limits(CURL *h, double limit_s)
{
    long ms = (long)ceil(limit_s * 1000);
    CURLcode rc = curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, ms);
    rc |= curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, ms);
    rc |= curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
    rc |= curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
    rc |= curl_easy_setopt(h, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(h, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    rc |=
        curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    rc |= curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_FORBID_REUSE, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_BUFFERSIZE, 16384L);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* A resolver that hangs is left behind, not waited for. */
    rc |= curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L);
#endif
    return rc == CURLE_OK ? 0 : -1;
}

static int set_calls(CURL *h, struct post *p)
{
    CURLcode rc = curl_easy_setopt(h, CURLOPT_PRIVATE, p);
    rc |= curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, on_open);
    rc |= curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, p);
    rc |= curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_head);
    rc |= curl_easy_setopt(h, CURLOPT_HEADERDATA, p);
    rc |= curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body);
    rc |= curl_easy_setopt(h, CURLOPT_WRITEDATA, p);
    return rc == CURLE_OK ? 0 : -1;
}

static int set_headers(struct post *p)
{
    static const char *const lines[] = {"Content-Type: application/json",
                                        "Accept:", "Expect:"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct curl_slist *longer = curl_slist_append(p->headers, lines[i]);
        if (!longer)
            return -1;
        p->headers = longer;
    }
    return curl_easy_setopt(p->curl, CURLOPT_HTTPHEADER, p->headers) == CURLE_OK
               ? 0
               : -1;
}

int http_hooks_post(struct http_hooks *h, const char *url, bool is_literal,
                    const char *ca_file, const char *body, size_t len,
                    double limit_s, void *arg, struct error *err)
{
    struct post *p = calloc(1, sizeof(*p));
    if (!p || !(p->curl = curl_easy_init())) {
        free(p);
        return error_set(err, ERR_NOMEM, "hook");
    }
    p->arg = arg;
    p->is_literal = is_literal;
    CURLcode rc = curl_easy_setopt(p->curl, CURLOPT_URL, url);
    rc |= curl_easy_setopt(p->curl, CURLOPT_USERAGENT, "mgpu");
    rc |= curl_easy_setopt(p->curl, CURLOPT_POST, 1L);
    if (ca_file)
        rc |= curl_easy_setopt(p->curl, CURLOPT_CAINFO, ca_file);
    rc |= curl_easy_setopt(p->curl, CURLOPT_POSTFIELDS, body);
    rc |=
        curl_easy_setopt(p->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    if (rc != CURLE_OK || set_limits(p->curl, limit_s) < 0 ||
        set_calls(p->curl, p) < 0 || set_headers(p) < 0 ||
        curl_multi_add_handle(h->multi, p->curl) != CURLM_OK) {
        post_destroy(h, p);
        return error_set(err, ERR_NOMEM, "hook");
    }
    p->next = h->posts;
    p->at = &h->posts;
    if (p->next)
        p->next->at = &p->next;
    h->posts = p;
    return 0;
}

/* ---- ends -----------------------------------------------------------------
 */
static void judge(const struct post *p, CURLcode rc, long status,
                  struct http_hook_end *end)
{
    /* An answer that was cut, or does not end, has said what it is. */
    bool has_status = rc == CURLE_OK || status >= 200;
    *end = (struct http_hook_end){.arg = p->arg};
    if (has_status && status >= 200 && status < 300) {
        end->is_sent = true;
    } else if (has_status && status >= 300 && status < 400) {
        (void)snprintf(end->why, sizeof(end->why),
                       "HTTP status %ld: redirects are not followed", status);
    } else if (has_status) {
        end->is_worth_another = status >= 500 || status == 408 || status == 429;
        (void)snprintf(end->why, sizeof(end->why), "HTTP status %ld", status);
    } else if (p->is_refused) {
        (void)snprintf(end->why, sizeof(end->why),
                       "its name stands for this machine or its link: an "
                       "address is to be written out");
    } else if (p->head > HTTP_HOOK_HEAD_MAX) {
        (void)snprintf(end->why, sizeof(end->why), "its headers do not end");
    } else {
        end->is_worth_another = true;
        (void)snprintf(end->why, sizeof(end->why), "%s",
                       curl_easy_strerror(rc));
    }
}

typedef void done_fn(void *arg, const struct http_hook_end *end);

/* Returns how many have ended. */
static int go_on(struct http_hooks *h, done_fn *done, void *arg)
{
    int n = 0, n_running = 0, n_left = 0;
    CURLMsg *m;

    (void)curl_multi_perform(h->multi, &n_running);
    while ((m = curl_multi_info_read(h->multi, &n_left))) {
        struct http_hook_end end;
        char *data = NULL;
        long status = 0;
        if (m->msg != CURLMSG_DONE)
            continue;
        CURLcode rc = m->data.result;
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &data);
        (void)curl_easy_getinfo(m->easy_handle, CURLINFO_RESPONSE_CODE,
                                &status);
        struct post *p = (struct post *)(void *)data;
        judge(p, rc, status, &end);
        take_out(p);
        post_destroy(h, p);
        done(arg, &end);
        n++;
    }
    return n;
}

void http_hooks_wait(struct http_hooks *h, double max_s, done_fn *done,
                     void *arg)
{
    int ms = (int)ceil(fmin(fmax(max_s, 0), 3600) * 1000);
    if (go_on(h, done, arg) > 0)
        return;
    (void)curl_multi_poll(h->multi, NULL, 0, ms, NULL);
    (void)go_on(h, done, arg);
}

void http_hooks_wake(struct http_hooks *h)
{
    (void)curl_multi_wakeup(h->multi);
}
