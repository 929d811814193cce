/* http_exchange.c - one request and its reply, see http_server.h.
 *
 * An exchange lives until it is answered, even when its client has left in
 * between: whoever keeps it back for later needs no notice of that, and the
 * late answer is thrown away. Only streams, which never end by themselves,
 * are told (`closed`), always from the event loop and never from within
 * http_stream_send(), so that a loop over watchers cannot lose its footing.
 */
#include <event2/buffer.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "jobs/http/http_internal.h"

void http_exchange_free(struct http_exchange *x)
{
    if (!x)
        return;
    if (x->has_query)
        evhttp_clear_headers(&x->query);
    for (size_t i = 0; i < x->n_params; i++)
        free(x->params[i]);
    free(x);
}

void http_exchange_lost(struct http_exchange *x)
{
    /* evhttp either cut the request loose, which makes it ours to free, or
     * is about to free it together with its connection. */
    if (x->req && !evhttp_request_get_connection(x->req))
        evhttp_request_free(x->req);
    x->req = NULL;
    x->conn = NULL;
    if (!x->is_stream) {
        if (x->left)
            x->left(x->left_arg); /* x may be gone after it */
        return;
    }
    if (x->closed)
        x->closed(x->closed_arg);
    http_exchange_free(x);
}

/* ---- the request ----------------------------------------------------------
 */

int64_t http_uid(const struct http_exchange *x)
{
    return x->uid;
}

const char *http_peer(const struct http_exchange *x)
{
    return x->peer;
}

int http_set_uid(struct http_exchange *x, int64_t uid, struct error *err)
{
    struct http_conn *c = x->conn;
    if (c && http_conn_count_uid(c, uid) >= c->s->conf.max_clients_per_uid)
        return error_set(err, ERR_BUSY,
                         "too many connections, try again later");
    if (c)
        c->user = uid;
    x->uid = uid;
    return 0;
}

void http_drop_uid(struct http_exchange *x)
{
    x->uid = HTTP_NOBODY;
}

bool http_is_gone(const struct http_exchange *x)
{
    return !x->req;
}

void http_again(struct http_exchange *x)
{
    if (x->req)
        x->fn(x->fn_arg, x);
    else
        http_exchange_free(x);
}

const char *http_method(const struct http_exchange *x)
{
    /* No route takes another. */
    bool is_post =
        x->req && evhttp_request_get_command(x->req) == EVHTTP_REQ_POST;
    return is_post ? "POST" : "GET";
}

const char *http_target(const struct http_exchange *x)
{
    return x->req ? evhttp_request_get_uri(x->req) : "";
}

const char *http_param(const struct http_exchange *x, size_t i)
{
    return i < x->n_params ? x->params[i] : NULL;
}

int http_exchange_parse_query(struct http_exchange *x)
{
    const char *q = evhttp_uri_get_query(evhttp_request_get_evhttp_uri(x->req));
    if (!q || !*q)
        return 0;
    if (evhttp_parse_query_str(q, &x->query) < 0)
        return -1;
    x->has_query = true;
    return 0;
}

const char *http_query(struct http_exchange *x, const char *name)
{
    return x->has_query ? evhttp_find_header(&x->query, name) : NULL;
}

const char *http_header(const struct http_exchange *x, const char *name)
{
    if (!x->req)
        return NULL;
    return evhttp_find_header(evhttp_request_get_input_headers(x->req), name);
}

const char *http_authorization(const struct http_exchange *x,
                               const char *scheme)
{
    size_t len = strlen(scheme);
    const char *h = http_header(x, "Authorization");
    if (!h || strncasecmp(h, scheme, len) != 0 || h[len] != ' ')
        return NULL;
    return h + len + 1;
}

const char *http_bearer(const struct http_exchange *x)
{
    return http_authorization(x, "Bearer");
}

const char *http_body(struct http_exchange *x, size_t *ret_len)
{
    *ret_len = 0;
    if (!x->req)
        return "";
    struct evbuffer *in = evhttp_request_get_input_buffer(x->req);
    size_t len = evbuffer_get_length(in);
    const unsigned char *p = len > 0 ? evbuffer_pullup(in, -1) : NULL;
    if (!p)
        return "";
    *ret_len = len;
    return (const char *)p;
}

/* ---- the reply ------------------------------------------------------------
 */

void http_watch_left(struct http_exchange *x, void (*left)(void *arg),
                     void *arg)
{
    x->left = left;
    x->left_arg = arg;
    if (x->req && !x->conn->hup)
        (void)http_conn_watch_hup(x->conn); /* else the reply finds out */
}

void http_add_header(struct http_exchange *x, const char *name,
                     const char *value)
{
    if (x->req)
        (void)evhttp_add_header(evhttp_request_get_output_headers(x->req), name,
                                value);
}

void http_exchange_set_type(struct http_exchange *x, const char *type)
{
    const struct evkeyvalq *out = evhttp_request_get_output_headers(x->req);
    const struct http_header *h = x->conn->s->conf.headers;
    http_add_header(x, "Content-Type", type);
    if (!evhttp_find_header(out, "Cache-Control"))
        http_add_header(x, "Cache-Control", "no-store");
    for (; h && h->name; h++)
        http_add_header(x, h->name, h->value);
}

/* in  body  NULL: there was no memory; an empty answer, not a lie */
static void reply(struct http_exchange *x, int status, const char *type,
                  struct evbuffer *body)
{
    if (x->req) {
        http_exchange_set_type(x, type);
        http_conn_answered(x->conn);
        evhttp_send_reply(x->req, body ? status : 503, NULL, body);
    }
    if (body)
        evbuffer_free(body);
    http_exchange_free(x);
}

void http_reply_text(struct http_exchange *x, int status, const char *type,
                     const char *text, size_t len)
{
    struct evbuffer *body = x->req ? evbuffer_new() : NULL;
    if (body && evbuffer_add(body, text, len) < 0) {
        evbuffer_free(body);
        body = NULL;
    }
    reply(x, status, type, body);
}

static void free_memory(const void *data, size_t len, void *arg)
{
    (void)data;
    (void)len;
    free(arg);
}

void http_reply_own(struct http_exchange *x, char *memory, const char *json,
                    size_t len)
{
    struct evbuffer *body = x->req ? evbuffer_new() : NULL;
    if (!body ||
        evbuffer_add_reference(body, json, len, free_memory, memory) < 0) {
        free(memory);
        if (body)
            evbuffer_free(body);
        body = NULL;
    }
    reply(x, 200, "application/json", body);
}

void http_reply_json(struct http_exchange *x, int status, const char *json,
                     size_t len)
{
    http_reply_text(x, status, "application/json", json, len);
}

static int status_of(enum err_code code)
{
    switch (code) {
    case ERR_USAGE:
    case ERR_INVAL:
        return 400;
    case ERR_DENIED:
    case ERR_FENCED:
        return 403;
    case ERR_NOTFOUND:
        return 404;
    case ERR_STATE:
        return 409;
    case ERR_LIMIT:
        return 429;
    case ERR_BUSY:
    case ERR_UNAVAIL:
    case ERR_NOMEM:
        return 503;
    case ERR_TIMEOUT:
        return 504;
    default:
        return 500;
    }
}

/* A message may have what a client said in it, cut at any byte, and JSON is
 * UTF-8: then it has '?' instead, and the answer is what it was meant to be.
 * NULL: no memory. */
static json_t *error_json(const struct error *err)
{
    char msg[sizeof(err->msg)];
    json_t *text = json_string(err->msg);
    memcpy(msg, err->msg, sizeof(msg));
    for (char *p = msg; !text && *p; p++)
        if ((unsigned char)*p >= 0x80)
            *p = '?';
    if (!text)
        text = json_string(msg);
    return json_pack("{s:s, s:{s:s, s:o}}", "schema", "mgpu.error/1", "error",
                     "code", error_word(err->code), "message", text);
}

void http_reply_err(struct http_exchange *x, const struct error *err)
{
    http_reply_err_as(x, status_of(err->code), err);
}

void http_reply_err_as(struct http_exchange *x, int status,
                       const struct error *err)
{
    json_t *o = error_json(err);
    char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    if (text) {
        http_reply_json(x, status, text, strlen(text));
    } else {
        static const char plain[] =
            "{\"schema\":\"mgpu.error/1\",\"error\":"
            "{\"code\":\"INTERNAL\",\"message\":\"internal error\"}}";
        http_reply_json(x, 500, plain, sizeof(plain) - 1);
    }
    free(text);
}

bool http_is_first(struct http_exchange *x)
{
    bool is_first = !x->was_seen;
    x->was_seen = true;
    return is_first;
}

void http_reply_retry(struct http_exchange *x, const struct error *err,
                      double after_s)
{
    char seconds[24];
    json_t *o = error_json(err);
    char *text =
        o && json_object_set_new(json_object_get(o, "error"), "retry_after_s",
                                 json_real(after_s)) == 0
            ? json_dumps(o, JSON_COMPACT)
            : NULL;
    json_decref(o);
    if (!text) {
        http_reply_err(x, err);
        return;
    }
    (void)snprintf(seconds, sizeof(seconds), "%.0f", ceil(after_s));
    if (x->req) /* without it the delay is in the body */
        (void)evhttp_add_header(evhttp_request_get_output_headers(x->req),
                                "Retry-After", seconds);
    http_reply_json(x, 429, text, strlen(text));
    free(text);
}
