/* http_server.c - connections, their limits, and their requests.
 *
 * evhttp parses and frames; this file adds what it lacks: who is calling
 * (SO_PEERCRED), how many may, and a deadline for a whole request (evhttp's
 * own timeout starts anew with each byte). A request's deadline starts with
 * its first byte, or with the connection, and ends when its handler is
 * called; its headers have one of their own, from the first byte to the empty
 * line, which is looked for as the bytes come, for evhttp does not tell. An
 * idle connection ends after conf.idle_timeout_s.
 *
 * While a request is being answered evhttp does not read from its client and
 * so does not see it leave. For an answer that comes at once that is well;
 * a stream asks the kernel instead (http_hup.c). evhttp's timeouts would end a
 * stream that has nothing to say; they are off until it has been sent.
 */
#include "jobs/http/http_server.h"

#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "jobs/http/http_internal.h"

enum {
    IDLE_S = 600,
    WRITE_S = 60, /* a client that does not read; no stream's */
    HEADERS_MAX_BYTES = 16384,
    /* evhttp's own limit, whose answer is HTML: we answer before it does. */
    HEADERS_HTML_BYTES = 4 * HEADERS_MAX_BYTES,
    WRITE_BYTES = 256 << 10, /* at once: what a socket takes, in 50 us */
    AHEAD_BYTES = 64 << 10,  /* of later requests, while one is answered */
    TCP_LEAVES = 8           /* one of so many connections is none of TCP's */
};

/* ---- connections ----------------------------------------------------------
 */

static void ring_init(struct http_conn *head)
{
    head->next = head->prev = head;
}

static void ring_add(struct http_conn *head, struct http_conn *c)
{
    c->prev = head->prev;
    c->next = head;
    head->prev->next = c;
    head->prev = c;
}

static void ring_del(struct http_conn *c)
{
    c->prev->next = c->next;
    c->next->prev = c->prev;
}

bool http_conn_is_open(const struct http_conn *c)
{
    struct stat st;
    return fstat(c->fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
           st.st_ino == c->ino;
}

static void conn_free(struct http_conn *c)
{
    if (c->fd >= 0) {
        c->s->n_conns--;
        c->s->n_tcp -= c->peer[0] != '\0';
        c->s->by_fd[c->fd] = NULL;
    }
    ring_del(c);
    if (c->deadline)
        event_free(c->deadline);
    if (c->head_deadline)
        event_free(c->head_deadline);
    if (c->hup)
        event_free(c->hup);
    if (c->end)
        event_free(c->end);
    free(c);
}

static void ring_free(struct http_conn *head)
{
    for (struct http_conn *c = head->next, *next; c != head; c = next) {
        next = c->next;
        conn_free(c);
    }
}

static struct timeval tv_of(double s)
{
    return (struct timeval){(time_t)s,
                            (suseconds_t)((s - (double)(time_t)s) * 1e6)};
}

/* Starts the deadline of a request of which nothing has come yet. */
static void arm(struct http_conn *c)
{
    const struct timeval tv = tv_of(c->s->conf.request_timeout_s);
    (void)evtimer_add(c->deadline, &tv);
    c->head = (struct http_head){.n_bytes = 0};
}

static void refuse(struct http_conn *c, int status, const char *reason,
                   const char *code, const char *why);

/* The last n bytes of what has arrived are new. */
static void take_head(struct http_conn *c, struct evbuffer *in, size_t n)
{
    char bytes[512];
    struct evbuffer_ptr at;
    size_t from = evbuffer_get_length(in) - n;

    if (c->head.n_bytes == 0 && c->s->conf.header_timeout_s > 0) {
        const struct timeval tv = tv_of(c->s->conf.header_timeout_s);
        (void)evtimer_add(c->head_deadline, &tv);
    }
    while (n > 0 && !c->head.is_over &&
           evbuffer_ptr_set(in, &at, from, EVBUFFER_PTR_SET) == 0) {
        ssize_t got = evbuffer_copyout_from(in, &at, bytes, sizeof(bytes));
        if (got <= 0)
            break;
        http_head_scan(&c->head, bytes, (size_t)got);
        from += (size_t)got;
        n -= (size_t)got;
    }
    if (c->head.is_over)
        (void)evtimer_del(c->head_deadline);
    if (c->head.bad)
        refuse(c, 400, "Bad Request", "INVAL", c->head.bad);
    else if (c->head.n_bytes > HEADERS_MAX_BYTES)
        refuse(c, 431, "Request Header Fields Too Large", "LIMIT",
               "the headers of the request are longer than 16 KiB");
}

/* The server has done nothing for the request, so the client may send it again.
 * */
#define RETRY_AFTER ",\"retry_after_s\":0.5"

/* Answers a request that exceeds a limit, on the socket itself: evhttp has no
 * exchange yet, as the request is not whole. evhttp then sees the end of the
 * connection and frees it. */
static void refuse(struct http_conn *c, int status, const char *reason,
                   const char *code, const char *why)
{
    char body[256], more[1024] = "", text[1536];
    size_t len = 0;
    for (const struct http_header *h = c->s->conf.headers;
         h && h->name && len < sizeof(more); h++)
        len += (size_t)snprintf(more + len, sizeof(more) - len, "%s: %s\r\n",
                                h->name, h->value);
    if (len >= sizeof(more)) /* none is better than half of one */
        more[0] = '\0';
    int n = snprintf(body, sizeof(body),
                     "{\"schema\":\"mgpu.error/1\",\"error\":"
                     "{\"code\":\"%s\",\"message\":\"%s\"%s}}",
                     code, why, status == 503 ? RETRY_AFTER : "");
    n = snprintf(text, sizeof(text),
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n"
                 "Connection: close\r\nContent-Length: %d\r\n%s\r\n%s",
                 status, reason, n, more, body);
    if (n > 0)
        (void)send(c->fd, text, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(c->fd, SHUT_RDWR);
    c->doomed = true;
    (void)evtimer_del(c->head_deadline);
    arm(c);
}

/* Tells evhttp that the client has ended the connection. The event is ours:
 * libevent loses its own deferred calls, with their buffers, when the loop ends
 * before they are made. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;
    (void)fd;
    (void)what;
    if (http_conn_is_open(c)) /* else evhttp has freed c->bev */
        bufferevent_trigger_event(c->bev, BEV_EVENT_READING | BEV_EVENT_EOF, 0);
}

/* evhttp has not seen the end of it: it is told of one. */
static void drop_deaf(struct http_conn *c)
{
    arm(c);
    event_active(c->end, EV_TIMEOUT, 0);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;
    (void)fd;
    (void)what;
    if (!http_conn_is_open(c))
        conn_free(c);
    else if (c->doomed)
        drop_deaf(c);
    else
        refuse(c, 408, "Request Timeout", "TIMEOUT",
               "the request did not arrive in time");
}

static void on_head_deadline(evutil_socket_t fd, short what, void *arg)
{
    struct http_conn *c = arg;
    (void)fd;
    (void)what;
    if (!http_conn_is_open(c))
        conn_free(c);
    else
        refuse(c, 408, "Request Timeout", "TIMEOUT",
               "the headers of the request did not arrive in time");
}

static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info,
                     void *arg)
{
    struct http_conn *c = arg;
    if (info->n_added == 0 || c->x || c->doomed)
        return;
    if (!evtimer_pending(c->deadline, NULL))
        arm(c);
    if (evbuffer_get_length(in) <=
        c->s->conf.max_body_bytes + HEADERS_HTML_BYTES / 2) {
        take_head(c, in, info->n_added);
        return;
    }
    /* evhttp waits for more than it may have, such as the end of a line. */
    refuse(c, 413, "Payload Too Large", "LIMIT",
           "the request is longer than a request may be");
    drop_deaf(c);
}

/* evhttp reads while a stream is answered, and also a line that does not end:
 * more stays in the socket. A body is taken from the buffer when it is whole.
 */
static void bound_input(struct http_conn *c, bool is_answered)
{
    size_t most = c->s->conf.max_body_bytes + HEADERS_HTML_BYTES;
    bufferevent_setwatermark(c->bev, EV_READ, 0,
                             is_answered ? AHEAD_BYTES : most);
}

static struct bufferevent *on_new_conn(struct event_base *base, void *arg)
{
    struct http_server *s = arg;
    struct bufferevent *bev = bufferevent_socket_new(base, -1, 0);
    struct http_conn *c = bev ? calloc(1, sizeof(*c)) : NULL;
    if (!c)
        goto fail;
    (void)bufferevent_set_max_single_write(bev, WRITE_BYTES);
    c->s = s;
    c->bev = bev;
    c->fd = -1;
    bound_input(c, false);
    ring_add(&s->fresh, c);
    c->deadline = evtimer_new(base, on_deadline, c);
    c->head_deadline = evtimer_new(base, on_head_deadline, c);
    c->end = event_new(base, -1, 0, on_end, c);
    if (!c->deadline || !c->head_deadline || !c->end ||
        !evbuffer_add_cb(bufferevent_get_input(bev), on_input, c)) {
        conn_free(c);
        goto fail;
    }
    /* evhttp sets the descriptor when we return; we look at it right after,
     * before anything is read. */
    event_active(s->adopt, EV_TIMEOUT, 0);
    return bev;
fail:
    if (bev)
        bufferevent_free(bev);
    return NULL; /* evhttp makes its own; without a record it gets a 503 */
}

static int index_conn(struct http_server *s, struct http_conn *c)
{
    size_t want = (size_t)c->fd + 1;
    if (want > s->n_by_fd) {
        size_t n = want < 64 ? 64 : want * 2;
        struct http_conn **p = realloc(s->by_fd, n * sizeof(void *));
        if (!p)
            return -1;
        memset(p + s->n_by_fd, 0, (n - s->n_by_fd) * sizeof(void *));
        s->by_fd = p;
        s->n_by_fd = n;
    }
    if (s->by_fd[c->fd]) /* ended before its first request */
        conn_free(s->by_fd[c->fd]);
    s->by_fd[c->fd] = c;
    s->n_conns++;
    s->n_tcp += c->peer[0] != '\0';
    return 0;
}

/* Counts the connections of one address, or of one uid: over TCP those of whom
 * that is known. With `sweep`, forgets those that have ended unseen; only then
 * is the count exact. */
static int32_t count_like(struct http_server *s, const struct http_conn *like,
                          bool sweep)
{
    int32_t n = 0;
    for (struct http_conn *c = s->conns.next, *next; c != &s->conns; c = next) {
        next = c->next;
        if (sweep && !c->evcon && !http_conn_is_open(c))
            conn_free(c);
        else
            n += like->net[0] ? strcmp(c->net, like->net) == 0
                              : c->user == like->user;
    }
    return n;
}

int32_t http_conn_count_uid(const struct http_conn *but, int64_t uid)
{
    int32_t n = 0;
    const struct http_conn *head = &but->s->conns;
    for (const struct http_conn *c = head->next; c != head; c = c->next)
        n += c != but && c->user == uid;
    return n;
}

static bool is_let_in(const struct http_server *s, const struct http_conn *c)
{
    return !c->peer[0] && s->conf.is_let_in &&
           s->conf.is_let_in(s->conf.arg, c->uid);
}

static bool is_too_many(struct http_server *s, const struct http_conn *c,
                        bool sweep)
{
    int32_t all = s->conf.max_clients + (is_let_in(s, c) ? HTTP_MORE : 0);
    int32_t most = c->peer[0] && s->conf.max_clients_per_net > 0
                       ? s->conf.max_clients_per_net
                       : s->conf.max_clients_per_uid;
    return count_like(s, c, sweep) > most || s->n_conns > all ||
           (c->peer[0] && s->n_tcp > all - all / TCP_LEAVES);
}

static void adopt_one(struct http_server *s, struct http_conn *c)
{
    struct stat st;
    int fd = bufferevent_getfd(c->bev);
    ring_del(c);
    ring_add(&s->conns, c);
    c->fd = fd;
    if (fd < 0 || fstat(fd, &st) < 0 ||
        http_peer_of(fd, &c->uid, c->peer) < 0 || index_conn(s, c) < 0) {
        c->fd = -1;
        (void)evbuffer_remove_cb(bufferevent_get_input(c->bev), on_input, c);
        conn_free(c);
        if (fd >= 0)
            (void)shutdown(fd, SHUT_RDWR);
        return;
    }
    c->ino = st.st_ino;
    c->user = c->uid;
    http_net_of(c->peer, c->net);
    http_conn_set_idle(c, true);
    arm(c);
    if (c->peer[0] && s->conf.is_shut_out &&
        s->conf.is_shut_out(s->conf.arg, fd))
        refuse(c, 403, "Forbidden", "DENIED",
               "this server belongs to another user");
    else if (is_too_many(s, c, false) && is_too_many(s, c, true))
        refuse(c, 503, "Service Unavailable", "BUSY",
               "too many connections, try again later");
}

static void on_adopt(evutil_socket_t fd, short what, void *arg)
{
    struct http_server *s = arg;
    (void)fd;
    (void)what;
    while (s->fresh.next != &s->fresh)
        adopt_one(s, s->fresh.next);
}

static void on_close(struct evhttp_connection *evcon, void *arg)
{
    struct http_conn *c = arg;
    struct http_exchange *x = c->x;
    (void)evcon;
    conn_free(c);
    if (x)
        http_exchange_lost(x);
}

void http_conn_answered(struct http_conn *c)
{
    c->x = NULL;
    if (c->hup)
        event_free(c->hup);
    c->hup = NULL;
}

static struct timeval idle_of(const struct http_server *s)
{
    double t = s->conf.idle_timeout_s;
    if (!(t > 0))
        t = IDLE_S;
    return tv_of(t);
}

void http_conn_set_idle(struct http_conn *c, bool is_limited)
{
    const struct timeval idle = idle_of(c->s);
    const struct timeval most = tv_of(WRITE_S);
    const struct timeval *write = idle.tv_sec < WRITE_S ? &idle : &most;
    (void)bufferevent_set_timeouts(c->bev, is_limited ? &idle : NULL,
                                   is_limited ? write : NULL);
}

size_t http_conn_behind(const struct http_conn *c)
{
    return evbuffer_get_length(bufferevent_get_output(c->bev));
}

/* ---- requests -------------------------------------------------------------
 */
static struct http_conn *conn_of(struct http_server *s,
                                 struct evhttp_request *req)
{
    struct bufferevent *bev =
        evhttp_connection_get_bufferevent(evhttp_request_get_connection(req));
    int fd = bufferevent_getfd(bev);
    struct http_conn *c =
        fd >= 0 && (size_t)fd < s->n_by_fd ? s->by_fd[fd] : NULL;
    return c && c->bev == bev ? c : NULL;
}

static void on_complete(struct evhttp_request *req, void *arg)
{
    struct http_conn *c = conn_of(arg, req);
    if (c) {
        http_conn_set_idle(c, true);
        bound_input(c, false);
    }
    struct evbuffer *in = c ? bufferevent_get_input(c->bev) : NULL;
    if (in && evbuffer_get_length(in) > 0) {
        arm(c); /* the next request has begun to arrive */
        take_head(c, in, evbuffer_get_length(in));
    }
}

static void on_request(struct evhttp_request *req, void *arg)
{
    struct http_server *s = arg;
    struct http_conn *c = conn_of(s, req);
    struct http_exchange *x = c && !c->doomed ? calloc(1, sizeof(*x)) : NULL;
    if (!x) {
        evhttp_send_error(req, 503, NULL);
        return;
    }
    (void)evtimer_del(c->deadline);
    (void)evtimer_del(c->head_deadline);
    if (!c->evcon) {
        c->evcon = evhttp_request_get_connection(req);
        evhttp_connection_set_closecb(c->evcon, on_close, c);
    }
    evhttp_request_set_on_complete_cb(req, on_complete, s);
    bound_input(c, true);
    assert(!c->x); /* evhttp answers one request before it reads the next */
    c->x = x;
    x->conn = c;
    x->req = req;
    x->uid = c->uid;
    memcpy(x->peer, c->peer, sizeof(x->peer));
    struct error err;
    if (http_exchange_parse_query(x) == 0) {
        http_dispatch(s, x);
    } else {
        (void)error_set(&err, ERR_INVAL, "the query string cannot be read");
        http_reply_err(x, &err);
    }
}

/* ---- the server -----------------------------------------------------------
 */

int http_server_create(struct event_base *base,
                       const struct http_server_conf *conf,
                       struct http_server **ret, struct error *err)
{
    struct http_server *s = calloc(1, sizeof(*s));
    if (!s)
        return error_set(err, ERR_NOMEM, "http server");
    s->base = base;
    s->conf = *conf;
    ring_init(&s->fresh);
    ring_init(&s->conns);
    s->http = evhttp_new(base);
    s->adopt = event_new(base, -1, 0, on_adopt, s);
    s->resume = evtimer_new(base, http_listen_resume, s);
    s->again = evtimer_new(base, http_listen_look_again, s);
    if (!s->http || !s->adopt || !s->resume || !s->again) {
        http_server_destroy(s);
        return error_set(err, ERR_NOMEM, "http server");
    }
    evhttp_set_bevcb(s->http, on_new_conn, s);
    evhttp_set_gencb(s->http, on_request, s);
    const struct timeval idle = idle_of(s);
    evhttp_set_timeout_tv(s->http, &idle);
    evhttp_set_max_headers_size(s->http, HEADERS_HTML_BYTES);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)conf->max_body_bytes);
    /* Every method, also one that evhttp does not know, reaches
     * http_dispatch(), which knows what to say. */
    evhttp_set_allowed_methods(s->http, 0xffff);
    /* Takes the rest of a body that is too long before it says so: a client
     * that is still writing would lose the answer to a reset. The request's
     * deadline bounds it. */
    (void)evhttp_set_flags(s->http, EVHTTP_SERVER_LINGERING_CLOSE);
    *ret = s;
    return 0;
}

void http_server_set_per_uid(struct http_server *s, int32_t max)
{
    s->conf.max_clients_per_uid = max;
}

void http_server_destroy(struct http_server *s)
{
    if (!s)
        return;
    http_server_close(s);
    if (s->http)
        evhttp_free(s->http);
    ring_free(&s->fresh);
    ring_free(&s->conns);
    if (s->adopt)
        event_free(s->adopt);
    if (s->resume)
        event_free(s->resume);
    if (s->again)
        event_free(s->again);
    free(s->by_fd);
    free(s);
}
