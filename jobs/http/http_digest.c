/* http_digest.c - see http_digest.h. */
#include "jobs/http/http_digest.h"

#include <string.h>

int http_request_digest(const struct http_request *req,
                        char ret[DIGEST_HEX_CAP], struct error *err)
{
    static const char version[] = "mgpu-request/1";
    const char *key = req->idempotency_key ? req->idempotency_key : "";
    const struct digest_part parts[] = {
        {version, sizeof(version) - 1},
        {req->method, strlen(req->method)},
        {req->path, strlen(req->path)},
        {key, strlen(key)},
        {req->body, req->body ? req->body_len : 0},
    };
    return digest_parts(parts, sizeof(parts) / sizeof(parts[0]), ret, err);
}
