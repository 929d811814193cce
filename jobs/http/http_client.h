/* http_client.h - HTTP/1.1 requests over a unix socket or TCP, with JSON.
 *
 * A thin layer on libcurl: one connection, kept alive, one thread. URLs are
 * "unix:/path/of/socket" or "http://host:port". Requests that are safe to
 * repeat (GET, or with an idempotency key) are repeated on a lost connection
 * until connect_timeout_s has passed, with a growing pause.
 */
#ifndef MGPU_JOBS_HTTP_HTTP_CLIENT_H
#define MGPU_JOBS_HTTP_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct http_client;

struct http_request {
    const char *method; /* "GET", "POST" */
    const char *path;   /* "/v1/jobs?..." */
    const char *body;   /* or NULL */
    size_t body_len;
    const char *content_type;    /* NULL: application/json */
    const char *idempotency_key; /* or NULL */
};

enum { HTTP_BASE_CAP = 300 };
/* Where the URL of a daemon leads.
 *
 * out  *ret_socket  within url; NULL: TCP
 *      base  what a request's path is appended to: "http://localhost"
 * err  ERR_INVAL an URL of another form */
int http_client_place(const char *url, const char **ret_socket,
                      char base[HTTP_BASE_CAP], struct error *err) MUST_CHECK;

struct http_client_conf {
    const char *url;
    const char *bearer;       /* token, or NULL */
    double connect_timeout_s; /* how long to try to reach the server */
    double timeout_s;         /* of one request; 0: none (streams) */
    size_t max_reply_bytes;   /* 0: 16 MiB */
    /* Appends the value of the header Authorization to out, anew for each try
     * of a request; NULL: none but bearer. */
    int (*authorize)(void *arg, const struct http_request *req, struct buf *out,
                     struct error *err);
    void *authorize_arg;
};

/* err  ERR_INVAL an URL of another form */
int http_client_create(const struct http_client_conf *conf,
                       struct http_client **ret, struct error *err) MUST_CHECK;
void http_client_destroy(struct http_client *c); /* NULL is fine */

/* out  ret_status  the HTTP status
 *      body        is appended to
 * err  ERR_UNAVAIL nobody listens there (the message names the URL and says
 *      how to start the daemon), ERR_TIMEOUT, ERR_LIMIT the reply is too
 *      long. A reply with status >= 400 is not an error here: see
 *      http_reply_error(). */
int http_client_call(struct http_client *c, const struct http_request *req,
                     int *ret_status, struct buf *body,
                     struct error *err) MUST_CHECK;

/* Whether bytes of a request of c were sent that had no whole reply: the
 * server may have carried it out. False as long as no connection was made. */
bool http_client_in_doubt(const struct http_client *c);

/* Calls line() for each line of a chunked JSON Lines reply, as it comes. */
int http_client_stream(struct http_client *c, const char *path,
                       int (*line)(void *arg, const char *text, size_t len,
                                   struct error *err),
                       void *arg, int *ret_status, struct buf *error_body,
                       struct error *err) MUST_CHECK;

/* Turns {"error":{"code":"NOTFOUND","message":"..."}} into err. Returns -1. */
int http_reply_error(int status, const struct buf *body, struct error *err);

#endif
