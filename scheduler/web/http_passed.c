/* http_passed.c - the headers of a request that is passed on, see
 * http_passed.h. */
#include "scheduler/web/http_passed.h"

#include <curl/curl.h>

#include "jobs/base/buf.h"
#include "jobs/http/http_client.h"
#include "jobs/wire/wire.h"
#include "scheduler/tools/common/client.h"

static int add_header(struct curl_slist **list, const char *name,
                      const char *value, struct error *err)
{
    struct buf line = BUF_INIT;
    int rc = buf_addf(&line, err, "%s: %s", name, value);
    struct curl_slist *longer =
        rc == 0 ? curl_slist_append(*list, buf_str(&line)) : NULL;
    buf_clear(&line);
    if (rc == 0 && !longer)
        return error_set(err, ERR_NOMEM, "http header");
    *list = longer ? longer : *list;
    return rc;
}

int http_passed_headers(const struct http_request *req, bool is_others,
                        bool is_remote, struct curl_slist **ret,
                        struct error *err)
{
    struct buf cred = BUF_INIT;
    *ret = NULL;
    int rc = add_header(ret, "Expect", "", err);
    if (rc == 0 && req->body)
        rc = add_header(ret, "Content-Type", "application/json", err);
    if (rc == 0 && req->idempotency_key)
        rc = add_header(ret, "Idempotency-Key", req->idempotency_key, err);
    if (rc == 0 && is_others)
        rc = add_header(ret, WIRE_VIEW, WIRE_VIEW_OTHERS, err);
    if (rc == 0 && is_remote) {
        rc = client_authorize(NULL, req, &cred, err);
        if (rc == 0)
            rc = add_header(ret, "Authorization", buf_str(&cred), err);
    }
    buf_clear(&cred);
    return rc;
}
