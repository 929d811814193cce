/* http_digest.h - what a credential of a request is for: the request itself.
 *
 * SHA-256 over five texts, each preceded by its length (digest_ssl.h):
 * "mgpu-request/1", the method, the path with its query as it was sent, the
 * Idempotency-Key or nothing, and the body. Whoever gets hold of the
 * credential can make the same request with it, once, and no other.
 */
#ifndef MGPU_JOBS_HTTP_HTTP_DIGEST_H
#define MGPU_JOBS_HTTP_HTTP_DIGEST_H

#include "jobs/http/digest_ssl.h"
#include "jobs/http/http_client.h"

/* in  req  its content type does not count */
int http_request_digest(const struct http_request *req,
                        char ret[DIGEST_HEX_CAP], struct error *err) MUST_CHECK;

#endif
