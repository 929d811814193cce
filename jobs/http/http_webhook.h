/* http_webhook.h - documents handed to servers that nobody here trusts.
 *
 * Several POSTs at a time, all from one thread; each has one deadline for all
 * of it, from the name's address to the last byte. Of the answer the status
 * counts and little more than that is read: no redirect is followed, no
 * cookie kept, no proxy or password of the environment used. Connections end
 * with their request. A name that stands for this machine, or for the network
 * link that services of a cloud live on, is not called; an address that was
 * written out is.
 */
#ifndef MGPU_JOBS_HTTP_HTTP_WEBHOOK_H
#define MGPU_JOBS_HTTP_HTTP_WEBHOOK_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

struct http_hooks;

/* Bytes of an answer that are read, of its head and of its body. */
enum { HTTP_HOOK_HEAD_MAX = 64 << 10, HTTP_HOOK_BODY_MAX = 16 << 10 };

struct http_hook_end {
    void *arg;             /* of the request */
    bool is_sent;          /* 2xx */
    bool is_worth_another; /* 408, 429, 5xx, or no answer at all */
    char why[160];         /* of one that is not sent; nothing of the URL */
};

int http_hooks_create(struct http_hooks **ret, struct error *err) MUST_CHECK;
/* What is under way is given up, without waiting for it. NULL is fine. */
void http_hooks_destroy(struct http_hooks *h);

/* POSTs JSON. in  ca_file  PEM, of authorities that vouch for https servers
 *                      besides the system's directory of them; NULL: none
 *             body  [len] is borrowed until the end
 *             is_literal  the URL's host is an address, or "localhost"
 * err  ERR_NOMEM, ERR_INVAL the URL; then there is no end of it */
int http_hooks_post(struct http_hooks *h, const char *url, bool is_literal,
                    const char *ca_file, const char *body, size_t len,
                    double limit_s, void *arg, struct error *err) MUST_CHECK;

/* Waits for at most max_s, or until something happens or http_hooks_wake() is
 * called, then calls done() for what has ended. */
void http_hooks_wait(struct http_hooks *h, double max_s,
                     void (*done)(void *arg, const struct http_hook_end *end),
                     void *arg);
/* From any thread. */
void http_hooks_wake(struct http_hooks *h);

#endif
