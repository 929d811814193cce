/* http_route.c - the way of a request to its handler. */
#include <stdlib.h>
#include <string.h>

#include "jobs/http/http_internal.h"

/* Compares one path with a route's; copies what stands at ":name". */
static bool match(const char *route, const char *path, struct http_exchange *x)
{
    while (*route && *path) {
        if (*route == '*')
            return true;
        if (*route != ':') {
            if (*route++ != *path++)
                return false;
            continue;
        }
        size_t n = strcspn(path, "/"), len = 0;
        if (n == 0 || n > 512 || x->n_params == HTTP_PARAMS_MAX)
            return false;
        char raw[513];
        memcpy(raw, path, n);
        raw[n] = '\0';
        char *word = evhttp_uridecode(raw, 0, &len);
        if (!word || strlen(word) != len) {
            free(word);
            return false;
        }
        x->params[x->n_params++] = word;
        path += n;
        route += strcspn(route, "/");
    }
    return *route == *path;
}

static void drop_params(struct http_exchange *x)
{
    while (x->n_params > 0)
        free(x->params[--x->n_params]);
}

static const char *method_name(struct evhttp_request *req)
{
    switch (evhttp_request_get_command(req)) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    default:
        return "-"; /* no route has it */
    }
}

/* x may be gone after it. */
static void call(const struct http_server *s, struct http_exchange *x)
{
    const char *path = x->path;
    if (s->conf.enter)
        s->conf.enter(s->conf.arg);
    x->fn(x->fn_arg, x);
    if (s->conf.leave)
        s->conf.leave(s->conf.arg, path);
}

void http_dispatch(struct http_server *s, struct http_exchange *x)
{
    const char *method = method_name(x->req);
    const char *allow = NULL;
    const char *path =
        evhttp_uri_get_path(evhttp_request_get_evhttp_uri(x->req));
    for (const struct http_route *r = s->conf.routes; path && r->method; r++) {
        bool hit = match(r->path, path, x);
        if (hit && strcmp(r->method, method) == 0) {
            x->fn = r->fn;
            x->fn_arg = s->conf.arg;
            x->path = r->path;
            call(s, x);
            return;
        }
        if (hit)
            allow = r->method;
        drop_params(x);
    }
    if (allow) {
        struct evkeyvalq *out = evhttp_request_get_output_headers(x->req);
        bool head = evhttp_request_get_command(x->req) == EVHTTP_REQ_HEAD;
        static const char text[] =
            "{\"schema\":\"mgpu.error/1\",\"error\":{\"code\":\"INVAL\","
            "\"message\":\"this path does not take this method\"}}";
        (void)evhttp_add_header(out, "Allow", allow);
        http_reply_json(x, 405, text, head ? 0 : sizeof(text) - 1);
        return;
    }
    struct error err;
    (void)error_set(&err, ERR_NOTFOUND, "no such path: '%.120s'",
                    path ? path : "");
    http_reply_err(x, &err);
}
