/* http_upstream.c - see http_upstream.h.
 *
 * libcurl's multi interface on libevent: libcurl names the sockets that it
 * waits for and its next deadline, and is called when one of them is due. A
 * transfer must not end within a callback of libcurl's; so it ends in
 * take_done(), or in a callback of the server or of libevent.
 */
#include "scheduler/web/http_upstream.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/buf.h"
#include "jobs/http/http_client.h"
#include "jobs/http/http_server.h"
#include "jobs/wire/wire.h"
#include "scheduler/web/http_passed.h"
#include "scheduler/web/web_path.h"

/* A client that has so much to take gets no more until it has taken all. */
enum { BEHIND_BYTES = 256 << 10, READ_BYTES = 64 << 10 };
enum { CONNECT_MS = 5000, HEAD_S = 60 };
static const double BUSY_AGAIN_S = 5;

struct web_upstream {
    struct event_base *base;
    CURLM *multi;
    struct event *timer;
    char *url, *socket; /* socket NULL: TCP */
    char host[HTTP_BASE_CAP];
    struct web_upstream_conf conf; /* without the URL */
    struct pass *first;
    int32_t n, n_streams;
};

/* One request that is passed on. */
struct pass {
    struct web_upstream *up;
    struct pass *next, *prev;
    struct http_exchange *x;
    CURL *easy;
    struct curl_slist *headers;
    /* Until the head of the reply is there; later while a client that is
     * behind takes nothing. */
    struct event *patience;
    bool is_started, is_paused;
    bool is_stream, is_unveiled; /* its reply is not one for others */
};

/* ---- a transfer's life ----------------------------------------------------
 */

/* Not from a callback of libcurl's. p->x is the caller's afterwards. */
static void pass_free(struct pass *p)
{
    if (p->easy) {
        (void)curl_multi_remove_handle(p->up->multi, p->easy);
        curl_easy_cleanup(p->easy);
    }
    curl_slist_free_all(p->headers);
    if (p->patience)
        event_free(p->patience);
    if (p->prev)
        p->prev->next = p->next;
    else if (p->up->first == p)
        p->up->first = p->next;
    if (p->next)
        p->next->prev = p->prev;
    p->up->n--;
    p->up->n_streams -= p->is_stream;
    free(p);
}

/* How the daemon could not be asked. Returns the HTTP status. */
static int describe(const struct pass *p, CURLcode rc, struct error *err)
{
    const char *url = p->up->url;
    long os = 0;
    if (p->is_unveiled) {
        (void)error_set(err, ERR_UNAVAIL,
                        "the daemon is older than this mgpu-web: restart it");
        return 502;
    }
    switch (rc) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        (void)curl_easy_getinfo(p->easy, CURLINFO_OS_ERRNO, &os);
        if (os == EACCES || os == EPERM) {
            (void)error_set(err, ERR_DENIED,
                            "the daemon at '%s' does not admit this user", url);
            return 403;
        }
        (void)error_set(err, ERR_UNAVAIL, "no daemon answers at '%s'", url);
        return 503;
    case CURLE_OPERATION_TIMEDOUT:
        (void)error_set(err, ERR_TIMEOUT,
                        "the daemon at '%s' did not answer in time", url);
        return 504;
    case CURLE_OUT_OF_MEMORY:
        (void)error_set(err, ERR_NOMEM, "out of memory");
        return 503;
    default:
        (void)error_set(err, ERR_UNAVAIL, "lost the connection to '%s': %s",
                        url, curl_easy_strerror(rc));
        return 502;
    }
}

static void pass_end(struct pass *p, CURLcode rc)
{
    struct http_exchange *x = p->x;
    struct error err = ERROR_INIT;
    bool is_started = p->is_started;
    int status = rc == CURLE_OK ? 200 : describe(p, rc, &err);
    pass_free(p);
    if (is_started && rc == CURLE_OK) {
        http_stream_end(x);
    } else if (is_started) {
        http_stream_cut(x);
    } else {
        if (rc == CURLE_OK)
            (void)error_set(&err, ERR_UNAVAIL, "the daemon's reply was empty");
        http_reply_err_as(x, rc == CURLE_OK ? 502 : status, &err);
    }
}

static void take_done(struct web_upstream *u)
{
    int left = 0;
    for (CURLMsg *m; (m = curl_multi_info_read(u->multi, &left));) {
        char *p = NULL;
        if (m->msg == CURLMSG_DONE &&
            curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &p) ==
                CURLE_OK &&
            p)
            pass_end((struct pass *)(void *)p, m->data.result);
    }
}

/* ---- what the server and the loop say -------------------------------------
 */

/* The client left before the reply began: the reply goes nowhere. */
static void on_left(void *arg)
{
    struct error err;
    struct pass *p = arg;
    struct http_exchange *x = p->x;
    pass_free(p);
    (void)error_set(&err, ERR_UNAVAIL, "the client left");
    http_reply_err(x, &err);
}

/* The client left the stream, which the server frees. */
static void on_closed(void *arg)
{
    pass_free(arg);
}

static void on_drained(void *arg)
{
    struct pass *p = arg;
    if (!p->is_paused)
        return;
    p->is_paused = false;
    (void)evtimer_del(p->patience);
    CURLcode rc = curl_easy_pause(p->easy, CURLPAUSE_CONT);
    if (rc != CURLE_OK) /* nothing else would end it */
        pass_end(p, rc);
}

static void on_patience(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    pass_end(arg, CURLE_OPERATION_TIMEDOUT);
}

/* ---- what libcurl says ----------------------------------------------------
 */

static void copy_header(const struct pass *p, const char *name)
{
    struct curl_header *h = NULL;
    if (curl_easy_header(p->easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
        http_add_header(p->x, name, h->value);
}

static void start(struct pass *p, long status)
{
    char *type = NULL;
    (void)curl_easy_getinfo(p->easy, CURLINFO_CONTENT_TYPE, &type);
    copy_header(p, "Retry-After");
    copy_header(p, "Allow");
    (void)evtimer_del(p->patience);
    p->is_started = true;
    http_stream_start_as(p->x, (int)status,
                         type ? type : "application/octet-stream", on_closed,
                         p);
    http_stream_on_drained(p->x, on_drained);
}

/* An error names no job's data. */
static bool is_for_others(const struct pass *p, long status)
{
    struct curl_header *h = NULL;
    return status >= 400 ||
           (curl_easy_header(p->easy, WIRE_VIEW, 0, CURLH_HEADER, -1, &h) ==
                CURLHE_OK &&
            strcmp(h->value, WIRE_VIEW_OTHERS) == 0);
}

/* The empty line ends the head of a reply. */
static size_t on_header(char *line, size_t size, // NOLINT: curl's type
                        size_t n, void *arg)
{
    struct pass *p = arg;
    long status = 0;
    (void)curl_easy_getinfo(p->easy, CURLINFO_RESPONSE_CODE, &status);
    if (n * size <= 2 && (line[0] == '\r' || line[0] == '\n') &&
        status >= 200 && !p->is_started) {
        p->is_unveiled = p->up->conf.is_others && !is_for_others(p, status);
        if (p->is_unveiled)
            return 0;
        start(p, status);
    }
    return n * size;
}

static void wait_for_client(struct pass *p)
{
    double s = p->up->conf.still_s;
    const struct timeval tv = {(time_t)s, (suseconds_t)(fmod(s, 1) * 1e6)};
    if (s > 0)
        (void)evtimer_add(p->patience, &tv);
}

static size_t on_data(char *data, size_t size, size_t n, void *arg)
{
    struct pass *p = arg;
    if (!p->is_started)
        return 0;
    if (http_stream_behind(p->x) > BEHIND_BYTES) {
        p->is_paused = true; /* libcurl keeps these bytes */
        wait_for_client(p);
        return CURL_WRITEFUNC_PAUSE;
    }
    http_stream_send(p->x, data, n * size);
    return n * size;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct web_upstream *u = arg;
    int running = 0;
    (void)fd;
    (void)what;
    (void)curl_multi_socket_action(u->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    take_done(u);
}

static int set_timer(CURLM *multi, long after_ms, void *arg)
{
    const struct web_upstream *u = arg;
    const struct timeval tv = {after_ms / 1000, (after_ms % 1000) * 1000};
    (void)multi;
    return after_ms < 0 ? evtimer_del(u->timer) : evtimer_add(u->timer, &tv);
}

static void on_socket(evutil_socket_t fd, short what, void *arg)
{
    struct web_upstream *u = arg;
    int running = 0;
    int ready = (what & EV_READ ? CURL_CSELECT_IN : 0) |
                (what & EV_WRITE ? CURL_CSELECT_OUT : 0);
    (void)curl_multi_socket_action(u->multi, fd, ready, &running);
    take_done(u);
}

static int set_socket(CURL *easy, curl_socket_t fd, int what, void *arg,
                      void *old)
{
    struct web_upstream *u = arg;
    struct event *ev = NULL;
    (void)easy;
    if (old)
        event_free(old);
    if (what != CURL_POLL_REMOVE) {
        int on = (what & CURL_POLL_IN ? EV_READ : 0) |
                 (what & CURL_POLL_OUT ? EV_WRITE : 0);
        ev = event_new(u->base, fd, (short)(on | EV_PERSIST), on_socket, u);
        if (!ev || event_add(ev, NULL) < 0) {
            if (ev)
                event_free(ev);
            (void)curl_multi_assign(u->multi, fd, NULL);
            return -1;
        }
    }
    (void)curl_multi_assign(u->multi, fd, ev);
    return 0;
}

/* ---- the upstream ---------------------------------------------------------
 */

int web_upstream_create(struct event_base *base,
                        const struct web_upstream_conf *conf,
                        struct web_upstream **ret, struct error *err)
{
    const char *url = conf->url;
    const char *socket = NULL;
    struct web_upstream *u = calloc(1, sizeof(*u));
    if (!u)
        return error_set(err, ERR_NOMEM, "upstream");
    if (http_client_place(url, &socket, u->host, err) < 0) {
        free(u);
        return -1;
    }
    u->base = base;
    u->conf = *conf;
    u->conf.url = NULL; /* the caller's */
    u->url = strdup(url);
    u->socket = socket ? strdup(socket) : NULL;
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    u->multi = curl_multi_init();
    u->timer = evtimer_new(base, on_timer, u);
    if (!u->url || (socket && !u->socket) || !u->multi || !u->timer) {
        web_upstream_destroy(u);
        return error_set(err, ERR_NOMEM, "upstream");
    }
    (void)curl_multi_setopt(u->multi, CURLMOPT_SOCKETFUNCTION, set_socket);
    (void)curl_multi_setopt(u->multi, CURLMOPT_SOCKETDATA, u);
    (void)curl_multi_setopt(u->multi, CURLMOPT_TIMERFUNCTION, set_timer);
    (void)curl_multi_setopt(u->multi, CURLMOPT_TIMERDATA, u);
    *ret = u;
    return 0;
}

void web_upstream_destroy(struct web_upstream *u)
{
    if (!u)
        return;
    for (struct pass *p = u->first, *next; p; p = next) {
        next = p->next;
        pass_free(p);
    }
    if (u->multi)
        (void)curl_multi_cleanup(u->multi);
    if (u->timer)
        event_free(u->timer);
    free(u->url);
    free(u->socket);
    free(u);
}

/* Each request has a connection of its own: one that was kept may have died,
 * and libcurl would send a request twice. */
static int set_up(struct pass *p, const struct http_request *req,
                  struct error *err)
{
    struct buf url = BUF_INIT;
    CURL *h = p->easy;
    if (buf_addf(&url, err, "%s%s", p->up->host, req->path) < 0)
        return -1;
    CURLcode rc = curl_easy_setopt(h, CURLOPT_URL, buf_str(&url));
    buf_clear(&url);
    rc |= curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http");
    rc |= curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_UNIX_SOCKET_PATH, p->up->socket);
    rc |= curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    rc |= curl_easy_setopt(h, CURLOPT_USERAGENT, "mgpu-web");
    rc |= curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    rc |= curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_FORBID_REUSE, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_HTTPHEADER, p->headers);
    rc |= curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
    rc |= curl_easy_setopt(h, CURLOPT_HEADERDATA, p);
    rc |= curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_data);
    rc |= curl_easy_setopt(h, CURLOPT_WRITEDATA, p);
    rc |= curl_easy_setopt(h, CURLOPT_PRIVATE, p);
    if (req->body) {
        rc |= curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)req->body_len);
        rc |= curl_easy_setopt(h, CURLOPT_COPYPOSTFIELDS, req->body);
    }
    return rc == CURLE_OK ? 0 : error_set(err, ERR_NOMEM, "http request");
}

static int begin(struct pass *p, struct error *err)
{
    const struct timeval head = {.tv_sec = HEAD_S};
    struct http_request req = {
        .method = http_method(p->x),
        .path = http_target(p->x),
        .idempotency_key = http_header(p->x, "Idempotency-Key"),
    };
    if (strcmp(req.method, "POST") == 0)
        req.body = http_body(p->x, &req.body_len);
    p->easy = curl_easy_init();
    p->patience = evtimer_new(p->up->base, on_patience, p);
    if (!p->easy || !p->patience || evtimer_add(p->patience, &head) < 0)
        return error_set(err, ERR_NOMEM, "http request");
    if (http_passed_headers(&req, p->up->conf.is_others, !p->up->socket,
                            &p->headers, err) < 0 ||
        set_up(p, &req, err) < 0)
        return -1;
    return curl_multi_add_handle(p->up->multi, p->easy) == CURLM_OK
               ? 0
               : error_set(err, ERR_NOMEM, "http request");
}

static bool is_full(const struct web_upstream *u, bool is_stream)
{
    const struct web_upstream_conf *c = &u->conf;
    return (c->max_passes > 0 && u->n >= c->max_passes) ||
           (is_stream && c->max_streams > 0 && u->n_streams >= c->max_streams);
}

void web_upstream_pass(struct web_upstream *u, struct http_exchange *x)
{
    struct error err = ERROR_INIT;
    bool is_stream = web_path_is_watch(http_target(x));
    if (is_full(u, is_stream)) {
        (void)error_set(&err, ERR_BUSY,
                        "too many look at this page, try again later");
        http_reply_retry(x, &err, BUSY_AGAIN_S);
        return;
    }
    struct pass *p = calloc(1, sizeof(*p));
    if (!p) {
        (void)error_set(&err, ERR_NOMEM, "out of memory");
        http_reply_err(x, &err);
        return;
    }
    p->up = u;
    p->x = x;
    p->is_stream = is_stream;
    u->n++;
    u->n_streams += is_stream;
    p->next = u->first;
    if (p->next)
        p->next->prev = p;
    u->first = p;
    if (begin(p, &err) < 0) {
        pass_free(p);
        http_reply_err(x, &err);
        return;
    }
    http_watch_left(x, on_left, p);
}

/* What the daemon does for a POST, it does: that answer is passed on. */
void web_upstream_cut_streams(struct web_upstream *u)
{
    struct error err = ERROR_INIT;
    (void)error_set(&err, ERR_DENIED,
                    "the session has ended: open the page again");
    for (struct pass *p = u->first, *next; p; p = next) {
        struct http_exchange *x = p->x;
        bool is_started = p->is_started;
        next = p->next;
        if (!is_started && strcmp(http_method(x), "GET") != 0)
            continue;
        pass_free(p);
        if (is_started)
            http_stream_cut(x);
        else
            http_reply_err(x, &err);
    }
}
