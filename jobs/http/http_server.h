/* http_server.h - the server's side of the wire: evhttp, bounded.
 *
 * Routes are a table; a handler gets a parsed request and replies at once or
 * later (http_reply may be called from any later callback of the same loop).
 * Limits: header 16 KiB, body conf.max_body_bytes; both arrive within
 * conf.request_timeout_s, the header within conf.header_timeout_s;
 * conf.max_clients connections, of these conf.max_clients_per_uid of a uid
 * and, over TCP, conf.max_clients_per_net of an address. An eighth is kept
 * for the unix socket: clients on other machines cannot shut out local ones.
 * Past a limit a client gets one answer (400, 413, 431, 503), and is closed.
 *
 * Over the unix socket the kernel names the caller's uid. Over TCP http_uid()
 * is -1 until a handler has authenticated the caller and called
 * http_set_uid().
 */
#ifndef MGPU_JOBS_HTTP_HTTP_SERVER_H
#define MGPU_JOBS_HTTP_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct event_base; /* libevent */
struct http_server;
struct http_exchange; /* one request and its reply */

typedef void (*http_handler_f)(void *arg, struct http_exchange *x);

struct http_route {
    const char *method;
    /* "/v1/jobs/:id/events", with at most 3 parameters. "*" at the end stands
     * for one character or more of any kind. */
    const char *path;
    http_handler_f fn;
};
struct http_header {
    const char *name, *value;
};

enum { HTTP_MORE = 8 };
struct http_server_conf {
    const struct http_route *routes; /* ends with a NULL method; borrowed */
    void *arg;
    size_t max_body_bytes;
    double request_timeout_s;
    double header_timeout_s; /* from the first byte on; 0: as the whole */
    double idle_timeout_s;   /* between two requests; 0: ten minutes */
    /* Of each reply, except evhttp's own for a body that is too long, a
     * constant text; ends with a NULL name; borrowed; may be NULL. */
    const struct http_header *headers;
    int32_t max_clients, max_clients_per_uid;
    /* Connections of one address over TCP, with a known user or without; 0: as
     * of a uid. */
    int32_t max_clients_per_net;
    /* Whose connections over the unix socket are taken also when max_clients
     * are there, HTTP_MORE of them. NULL: nobody's. */
    bool (*is_let_in)(void *arg, int64_t uid);
    /* Whether a connection over TCP ends at once, with 403; NULL: none does. */
    bool (*is_shut_out)(void *arg, int fd);
    /* Around each call of a handler, while which the loop stands still; may
     * be NULL. in  path  the route's */
    void (*enter)(void *arg);
    void (*leave)(void *arg, const char *path);
};

int http_server_create(struct event_base *base,
                       const struct http_server_conf *conf,
                       struct http_server **ret, struct error *err) MUST_CHECK;
void http_server_destroy(struct http_server *s); /* NULL is fine */
/* Sets max_clients_per_uid for connections that come from now on. */
void http_server_set_per_uid(struct http_server *s, int32_t max);

/* Accepts nobody any more and removes the socket; clients that it has stay. */
void http_server_close(struct http_server *s);

/* To be called when libevent has logged that something failed: of all servers
 * of this process that run in this thread, those whose connections it concerns
 * may be deaf. They are asked again, in a moment. */
void http_server_look_again(void);

/* A unix socket at path, mode 0600 (or as given). A stale one is replaced.
 * in   gid  whose group's it is; 0: that of whoever makes it
 * err  ERR_STATE somebody answers there already; ERR_DENIED not a group of
 *      ours */
int http_server_listen_unix(struct http_server *s, const char *path,
                            unsigned mode, int64_t gid,
                            struct error *err) MUST_CHECK;

/* Whether it could, as far as is seen without changing anything.
 * err  ERR_STATE as above, or what is there is no socket; ERR_CONFIG the path
 *      is too long */
int http_server_may_listen_unix(const char *path, struct error *err) MUST_CHECK;

/* TCP at "HOST:PORT". HOST is a name, of whose addresses the first counts
 * that this machine has, an address, "[ADDRESS]" for IPv6, or "*" for all.
 * PORT 0 is any that is free.
 *
 * out  ret_port  may be NULL
 * err  ERR_CONFIG where is something else, or no address of this machine;
 *      ERR_STATE the port is in use; ERR_DENIED it is a privileged one */
int http_server_listen_tcp(struct http_server *s, const char *where,
                           int *ret_port, struct error *err) MUST_CHECK;

/* ---- the request; all borrowed until the reply is sent ---------------------
 */
int64_t http_uid(const struct http_exchange *x); /* SO_PEERCRED; -1 unknown */
/* The other end's address, numeric, over TCP ("192.0.2.7", "2001:db8::7",
 * never "::ffff:192.0.2.7"); "" over the unix socket. */
const char *http_peer(const struct http_exchange *x);
const char *http_method(const struct http_exchange *x);
const char *http_target(const struct http_exchange *x); /* "/path?query" */
const char *http_param(const struct http_exchange *x, size_t i);
/* The value of ?name=, decoded, or NULL. */
const char *http_query(struct http_exchange *x, const char *name);
const char *http_header(const struct http_exchange *x, const char *name);
const char *http_bearer(const struct http_exchange *x); /* or NULL */
/* The credential behind this scheme in the header Authorization, or NULL. */
const char *http_authorization(const struct http_exchange *x,
                               const char *scheme);
const char *http_body(struct http_exchange *x, size_t *ret_len);

/* ---- who calls, when it is not known at once --------------------------------
 *
 * A handler that has to find out first keeps the exchange, returns, and when
 * it knows says so and has itself called again, from the loop. */
/* err  ERR_BUSY uid has conf.max_clients_per_uid connections without this */
int http_set_uid(struct http_exchange *x, int64_t uid,
                 struct error *err) MUST_CHECK;
/* True once per request: a handler that counts is called again, too. */
bool http_is_first(struct http_exchange *x);
enum { HTTP_NOBODY = -2 };                   /* after http_drop_uid() */
void http_drop_uid(struct http_exchange *x); /* of this request alone */
/* Whether the client has left: no more of the request is to be had. */
bool http_is_gone(const struct http_exchange *x);
/* The handler, with all of the request as it was; when the client has left,
 * the exchange ends instead. */
void http_again(struct http_exchange *x);

/* left() is called once, from the loop, when the client leaves before the reply
 * begins. The exchange stays until it is answered. */
void http_watch_left(struct http_exchange *x, void (*left)(void *arg),
                     void *arg);

/* ---- the reply; exactly one of these, once --------------------------------
 */
/* A header of the reply that follows. One named Cache-Control replaces the
 * no-store that replies have. */
void http_add_header(struct http_exchange *x, const char *name,
                     const char *value);
void http_reply_json(struct http_exchange *x, int status, const char *json,
                     size_t len);
void http_reply_text(struct http_exchange *x, int status, const char *type,
                     const char *text, size_t len);
/* 200, without a copy of what may be a hundred megabytes.
 * in   json    within the memory
 * own  memory  free() is called when it was sent, or cannot be */
void http_reply_own(struct http_exchange *x, char *memory, const char *json,
                    size_t len);
/* {"error":{"code":...,"message":...}} with the status that fits the code. */
void http_reply_err(struct http_exchange *x, const struct error *err);
/* The same with another status, for a code that may be anybody's fault. */
void http_reply_err_as(struct http_exchange *x, int status,
                       const struct error *err);
/* 429, with the header Retry-After in whole seconds and "retry_after_s" in the
 * error: nothing was done. */
void http_reply_retry(struct http_exchange *x, const struct error *err,
                      double after_s);

/* A chunked reply: start, any number of lines, end. `closed` is called when
 * the client went away or fell more than 1 MiB behind and was dropped; the
 * exchange is gone after it. It is never called from within one of these
 * functions. A stream may be silent, and its client stand still, for any
 * time. */
void http_stream_start(struct http_exchange *x, const char *type,
                       void (*closed)(void *arg), void *arg);
/* The same with another status than 200. */
void http_stream_start_as(struct http_exchange *x, int status, const char *type,
                          void (*closed)(void *arg), void *arg);
/* drained() is called, with the arg of the stream, when the client has taken
 * all that was sent by http_stream_send() from now on. */
void http_stream_on_drained(struct http_exchange *x,
                            void (*drained)(void *arg));
void http_stream_send(struct http_exchange *x, const char *data, size_t len);
/* The same with text that many streams send: a client that is behind holds a
 * reference, not a copy. */
struct http_shared;
/* own  takes data, which free() ends, also on failure
 * ret  with one reference; NULL: no memory */
struct http_shared *http_shared_create(char *data, size_t len);
void http_shared_unref(struct http_shared *b); /* NULL is fine */
void http_stream_send_shared(struct http_exchange *x, struct http_shared *b);
void http_stream_end(struct http_exchange *x);
/* Ends it so that the client sees that something is missing. */
void http_stream_cut(struct http_exchange *x);
/* Bytes that the client has yet to take: who sends much waits for it. */
size_t http_stream_behind(const struct http_exchange *x);

#endif
