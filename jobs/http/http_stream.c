/* http_stream.c - replies that come in pieces, see http_server.h.
 *
 * A client that falls too far behind is dropped, a moment later: a function
 * that sends never ends the stream under its caller.
 */
#include <event2/buffer.h>
#include <stdlib.h>

#include "jobs/http/http_internal.h"

/* The loop calls it a moment later. */
static void drop(struct http_exchange *x)
{
    x->dropped = true;
    http_conn_drop(x->conn);
}

void http_stream_start(struct http_exchange *x, const char *type,
                       void (*closed)(void *arg), void *arg)
{
    http_stream_start_as(x, 200, type, closed, arg);
}

void http_stream_start_as(struct http_exchange *x, int status, const char *type,
                          void (*closed)(void *arg), void *arg)
{
    x->is_stream = true;
    x->closed = closed;
    x->closed_arg = arg;
    if (!x->req) {
        /* The client left before the answer began. Nobody will call us
         * again for it, and `closed` must not run before we return: the
         * exchange stays, swallows what is sent, and ends with the stream.
         */
        return;
    }
    http_exchange_set_type(x, type);
    http_conn_set_idle(x->conn, false);
    evhttp_send_reply_start(x->req, status, NULL);
    if (!x->conn->hup)
        (void)http_conn_watch_hup(x->conn); /* else a failed write tells */
}

static void on_drained(struct evhttp_connection *evcon, void *arg)
{
    struct http_exchange *x = arg;
    (void)evcon;
    if (x->drained)
        x->drained(x->closed_arg);
}

void http_stream_on_drained(struct http_exchange *x, void (*drained)(void *arg))
{
    x->drained = drained;
}

void http_stream_send(struct http_exchange *x, const char *data, size_t len)
{
    if (!x->req || x->dropped || len == 0)
        return;
    struct evbuffer *b = evbuffer_new();
    if (b && evbuffer_add(b, data, len) == 0)
        evhttp_send_reply_chunk_with_cb(x->req, b,
                                        x->drained ? on_drained : NULL, x);
    if (b)
        evbuffer_free(b);
    if (!b || http_conn_behind(x->conn) > HTTP_BEHIND_MAX)
        drop(x);
}

/* ---- text that many streams send ------------------------------------------
 */

struct http_shared {
    size_t n_refs; /* the event loop has one thread */
    size_t len;
    char *data; /* owned */
};

struct http_shared *http_shared_create(char *data, size_t len)
{
    struct http_shared *b = calloc(1, sizeof(*b));
    if (!b) {
        free(data);
        return NULL;
    }
    *b = (struct http_shared){.n_refs = 1, .len = len, .data = data};
    return b;
}

void http_shared_unref(struct http_shared *b)
{
    if (!b || --b->n_refs > 0)
        return;
    free(b->data);
    free(b);
}

static void on_shared_sent(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    http_shared_unref(arg);
}

/* libevent makes the piece that it appends to a buffer as large as the last one
 * there, and evhttp appends the frame of a chunk. So the last byte is a small
 * piece of its own, which the frame fits into. */
static bool add_shared(struct evbuffer *out, struct evbuffer *end,
                       struct http_shared *b)
{
    if (evbuffer_add(end, b->data + b->len - 1, 1) < 0)
        return false;
    if (b->len > 1 &&
        evbuffer_add_reference(out, b->data, b->len - 1, on_shared_sent, b) < 0)
        return false;
    b->n_refs += b->len > 1;
    return evbuffer_add_buffer(out, end) == 0;
}

void http_stream_send_shared(struct http_exchange *x, struct http_shared *b)
{
    if (!x->req || x->dropped || b->len == 0)
        return;
    struct evbuffer *out = evbuffer_new(), *end = evbuffer_new();
    bool is_added = out && end && add_shared(out, end, b);
    if (is_added)
        evhttp_send_reply_chunk(x->req, out);
    if (out)
        evbuffer_free(out);
    if (end)
        evbuffer_free(end);
    if (!is_added || http_conn_behind(x->conn) > HTTP_BEHIND_MAX)
        drop(x);
}

void http_stream_end(struct http_exchange *x)
{
    if (x->req && x->dropped) {
        x->closed = NULL;  /* a cut reply must not look whole: it ends with */
        x->drained = NULL; /* its connection, which is on its way down */
        return;
    }
    if (x->req) {
        struct evhttp_request *req = x->req;
        http_conn_answered(x->conn);
        evhttp_send_reply_end(req);
    }
    http_exchange_free(x);
}

void http_stream_cut(struct http_exchange *x)
{
    if (x->req && !x->dropped)
        drop(x);
    http_stream_end(x);
}

size_t http_stream_behind(const struct http_exchange *x)
{
    return x->req ? http_conn_behind(x->conn) : 0;
}
