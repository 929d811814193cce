/* http_passed.h - the headers of a request that mgpu-web passes on to the
 * daemon. */
#ifndef MGPU_SCHEDULER_WEB_HTTP_PASSED_H
#define MGPU_SCHEDULER_WEB_HTTP_PASSED_H

#include <stdbool.h>

#include "jobs/base/error.h"

struct curl_slist; /* libcurl */
struct http_request;

/* The headers that the daemon gets: Idempotency-Key if the request has one,
 * never Cookie or Authorization of the client.
 *
 * in   is_others  X-Mgpu-View: others (wire.h)
 *      is_remote  the daemon is at a port: with a credential of MUNGE for req,
 *                 which this process makes
 * out  ret        also after an error; NULL: none
 * err  those of client_authorize(), ERR_NOMEM
 * own  curl_slist_free_all() */
int http_passed_headers(const struct http_request *req, bool is_others,
                        bool is_remote, struct curl_slist **ret,
                        struct error *err) MUST_CHECK;

#endif
