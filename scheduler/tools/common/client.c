/* client.c - requests to the daemon, and the common main() of the tools; see
 * client.h.
 *
 * A request that the daemon refuses for its rate limit is repeated when the
 * daemon says, for LIMITED_S at most.
 */
#include "scheduler/tools/common/client.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "jobs/base/buf.h"
#include "jobs/base/output.h"
#include "jobs/http/cred_munge.h"
#include "jobs/http/http_client.h"
#include "jobs/http/http_digest.h"
#include "jobs/state.h"
#include "jobs/wire/wire.h"
#include "scheduler/tools/common/render.h"

enum { PATH_CAP = 2048 }; /* size of a request path */

struct client {
    struct http_client *http;
    char url[256];
    double connect_s;
};

/* A query is answered in milliseconds; after ten seconds the daemon hangs. */
static const double REQUEST_S = 10;
/* Total time to wait under limits.rpc_rate and limits.max_clients_per_user, see
 * mgpu.yaml(5). */
static const double LIMITED_S = 60;

int client_authorize(void *arg, const struct http_request *req, struct buf *out,
                     struct error *err)
{
    const char *socket = getenv("MGPU_MUNGE_SOCKET");
    char digest[DIGEST_HEX_CAP];
    (void)arg;
    if (http_request_digest(req, digest, err) < 0 ||
        buf_addstr(out, "MUNGE ", err) < 0)
        return -1;
    return cred_make(socket && *socket ? socket : NULL, digest, out, err);
}

static int make_http(const struct client *c, struct http_client_conf *conf,
                     struct http_client **ret, struct error *err)
{
    conf->url = c->url;
    if (strncmp(c->url, "unix:", 5) != 0)
        conf->authorize = client_authorize;
    return http_client_create(conf, ret, err);
}

int client_create(const char *url, double timeout_s, struct client **ret,
                  struct error *err)
{
    char found[256];
    const char *from = getenv("MGPU_URL");
    from = url ? "--url" : from && *from ? "MGPU_URL" : NULL;
    if (!url) {
        if (wire_default_url(found, sizeof(found), err) < 0)
            return -1;
        url = found;
    }
    struct client *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, ERR_NOMEM, "client");
    (void)snprintf(c->url, sizeof(c->url), "%s", url);
    c->connect_s = timeout_s;
    struct http_client_conf conf = {
        .connect_timeout_s = timeout_s,
        .timeout_s = REQUEST_S,
        .max_reply_bytes = 1u << 30,
    };
    if (make_http(c, &conf, &c->http, err) < 0) {
        free(c);
        /* A wrong address is a wrong command line. */
        if (from && err && err->code == ERR_INVAL)
            err->code = ERR_USAGE;
        return from ? error_wrap(err, "%s", from) : -1;
    }
    *ret = c;
    return 0;
}

int client_patience(struct client *c, double request_s, struct error *err)
{
    struct http_client_conf conf = {
        .connect_timeout_s = c->connect_s,
        .timeout_s = request_s,
        .max_reply_bytes = 1u << 30,
    };
    struct http_client *http = NULL;
    if (make_http(c, &conf, &http, err) < 0)
        return -1;
    http_client_destroy(c->http);
    c->http = http;
    return 0;
}

void client_destroy(struct client *c)
{
    if (!c)
        return;
    http_client_destroy(c->http);
    free(c);
}

/* Waits and returns true if the request may be repeated: the daemon did not
 * process it, because of its rate or client limit, and its reply says when to
 * come back. Waits no more than LIMITED_S in all. */
static bool has_waited(int status, struct buf *body, double *io_waited_s)
{
    json_t *o = status == 429 || status == 503
                    ? json_loadb(buf_str(body), body->len, 0, NULL)
                    : NULL;
    const json_t *after =
        json_object_get(json_object_get(o, "error"), "retry_after_s");
    double s = json_is_number(after) ? json_number_value(after) : INFINITY;
    json_decref(o);
    if (*io_waited_s + s > LIMITED_S)
        return false;
    s = fmax(s, 0.01);
    const struct timespec pause = {.tv_sec = (time_t)s,
                                   .tv_nsec = (long)((s - floor(s)) * 1e9)};
    (void)nanosleep(&pause, NULL);
    *io_waited_s += s;
    buf_reset(body);
    return true;
}

static int call(struct client *c, const struct http_request *req,
                struct buf *ret, struct error *err)
{
    int status = 0, rc;
    double waited_s = 0;
    do
        rc = http_client_call(c->http, req, &status, ret, err);
    while (rc == 0 && has_waited(status, ret, &waited_s));
    return rc == 0 && status >= 400 ? http_reply_error(status, ret, err) : rc;
}

static int parse(const char *path, const struct buf *text, json_t **ret,
                 struct error *err)
{
    json_error_t why;
    json_t *o =
        json_loadb(buf_str(text), text->len, JSON_REJECT_DUPLICATES, &why);
    if (json_is_object(o)) {
        *ret = o;
        return 0;
    }
    (void)error_set(err, ERR_EXTERN,
                    "the daemon's reply to %s is not an object: %s", path,
                    o ? "another type" : why.text);
    json_decref(o);
    return -1;
}

static int call_json(struct client *c, const struct http_request *req,
                     json_t **ret, struct error *err)
{
    struct buf body = BUF_INIT;
    int rc = call(c, req, &body, err);
    if (rc == 0)
        rc = parse(req->path, &body, ret, err);
    buf_clear(&body);
    return rc;
}

int client_get(struct client *c, json_t **ret, struct error *err,
               const char *path_fmt, ...)
{
    char path[PATH_CAP];
    va_list ap;
    va_start(ap, path_fmt);
    int n = vsnprintf(path, sizeof(path), path_fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof(path))
        return error_set(err, ERR_USAGE, "the query is too long");
    return call_json(c, &(struct http_request){.method = "GET", .path = path},
                     ret, err);
}

int client_get_text(struct client *c, const char *path, struct buf *ret,
                    struct error *err)
{
    if (strlen(path) >= PATH_CAP)
        return error_set(err, ERR_USAGE, "the query is too long");
    return call(c, &(struct http_request){.method = "GET", .path = path}, ret,
                err);
}

int client_post(struct client *c, const char *path, const json_t *body,
                const char *key, json_t **ret, struct error *err)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    if (body && !text)
        return error_set(err, ERR_NOMEM, "request body");
    struct http_request req = {
        .method = "POST",
        .path = path,
        .body = text ? text : "{}",
        .body_len = text ? strlen(text) : 2,
        .idempotency_key = key,
    };
    int rc = call_json(c, &req, ret, err);
    free(text);
    return rc;
}

bool client_in_doubt(const struct client *c)
{
    return http_client_in_doubt(c->http);
}

int client_stream(struct client *c, const char *path, double timeout_s,
                  int (*line)(void *arg, const char *text, size_t len,
                              struct error *err),
                  void *arg, struct error *err)
{
    struct http_client_conf conf = {
        .connect_timeout_s = c->connect_s,
        .timeout_s = timeout_s,
    };
    struct http_client *http = NULL;
    if (make_http(c, &conf, &http, err) < 0)
        return -1;
    struct buf body = BUF_INIT;
    int status = 0, rc;
    double waited_s = 0;
    do
        rc = http_client_stream(http, path, line, arg, &status, &body, err);
    while (rc == 0 && has_waited(status, &body, &waited_s));
    if (rc == 0 && status >= 400)
        rc = http_reply_error(status, &body, err);
    buf_clear(&body);
    http_client_destroy(http);
    return rc;
}

int client_print(const json_t *o, struct error *err)
{
    char *text =
        o ? json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (!text)
        return error_set(err, ERR_NOMEM, "reply");
    (void)puts(text);
    free(text);
    return 0;
}

/* False: out of memory. */
static bool print_error_json(const struct error *err)
{
    json_t *o =
        json_pack("{s:s, s:{s:s, s:s}}", "schema", "mgpu.error/1", "error",
                  "code", error_word(err->code), "message", err->msg);
    bool is_said = client_print(o, NULL) == 0;
    json_decref(o);
    return is_said;
}

/* in  can_print  standard output is intact, so a JSON error can go there */
static int fail(const struct tool_main *m, bool can_print,
                const struct error *err)
{
    char safe[2 * sizeof(err->msg)];
    /* Most ERR_NOMEM messages only name what the memory was for. */
    bool is_bare = err->code == ERR_NOMEM && !strstr(err->msg, "memory");
    bool is_said = *m->json && can_print && print_error_json(err) &&
                   output_close(stdout, NULL) == 0;
    /* stderr is unbuffered, so this needs no memory. */
    if (!is_said)
        (void)fprintf(stderr, "%s: %s%s\n", m->tool->name,
                      is_bare ? "out of memory: " : "",
                      render_escape(err->msg, safe, sizeof(safe)));
    return error_exit_status(err->code);
}

int tool_run(const struct tool_main *m, int argc, char **argv)
{
    struct error err = ERROR_INIT;
    int operand = 0, status = 0;

    output_reserve();
    (void)setlocale(LC_ALL, "");
    output_quiet_pipe();
    int rc = options_parse(m->tool, argc, argv, m->on_option, m->arg, &operand,
                           &err);
    if (rc == OPTIONS_RUN)
        rc = m->run(m->arg, argc - operand, argv + operand, &status, &err);
    if (rc < 0) {
        status = fail(m, true, &err);
        if (m->advise)
            m->advise(m->arg);
        return status;
    }
    return output_close(stdout, &err) < 0 ? fail(m, false, &err) : status;
}
