/* http_client.c - see http_client.h. One libcurl easy handle, reused, so that
 * its connection is kept alive between calls.
 */
#include "jobs/http/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "jobs/base/clock.h"

enum { REPLY_MAX_BYTES = 16 << 20, READ_BYTES = 256 << 10 };
/* The first pause between two tries to connect, and the longest. A daemon
 * restarts in well under a second. */
static const double pause_first_s = 0.02, pause_max_s = 1.0;

struct http_client {
    CURL *curl;
    char *url, *bearer;
    char base[HTTP_BASE_CAP]; /* what paths are appended to */
    double connect_timeout_s, timeout_s;
    size_t max_reply_bytes;
    bool in_doubt;
    int (*authorize)(void *arg, const struct http_request *req, struct buf *out,
                     struct error *err);
    void *authorize_arg;
};

static void init_curl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_client_place(const char *url, const char **ret_socket,
                      char base[HTTP_BASE_CAP], struct error *err)
{
    static const char unix_scheme[] = "unix:", http_scheme[] = "http://";
    struct sockaddr_un addr;
    if (strncmp(url, unix_scheme, sizeof(unix_scheme) - 1) == 0) {
        const char *path = url + sizeof(unix_scheme) - 1;
        if (path[0] != '/' || strlen(path) >= sizeof(addr.sun_path))
            return error_set(err, ERR_INVAL,
                             "'%s': expected unix: and an absolute path of at "
                             "most %zu bytes",
                             url, sizeof(addr.sun_path) - 1);
        memcpy(base, "http://localhost", sizeof("http://localhost"));
        *ret_socket = path;
        return 0;
    }
    size_t len = strlen(url);
    size_t skip = sizeof(http_scheme) - 1;
    if (strncmp(url, http_scheme, skip) != 0 || len == skip ||
        strchr(url + skip, '/') || len >= HTTP_BASE_CAP)
        return error_set(err, ERR_INVAL,
                         "'%s': expected unix:/path or http://host:port", url);
    memcpy(base, url, len + 1);
    *ret_socket = NULL;
    return 0;
}

static int parse_url(struct http_client *c, struct error *err)
{
    const char *path = NULL;
    if (http_client_place(c->url, &path, c->base, err) < 0)
        return -1;
    if (path)
        (void)curl_easy_setopt(c->curl, CURLOPT_UNIX_SOCKET_PATH, path);
    return 0;
}

int http_client_create(const struct http_client_conf *conf,
                       struct http_client **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_curl);
    struct http_client *c = calloc(1, sizeof(*c));
    if (!c)
        return error_set(err, ERR_NOMEM, "http client");
    c->connect_timeout_s = conf->connect_timeout_s;
    c->timeout_s = conf->timeout_s;
    c->authorize = conf->authorize;
    c->authorize_arg = conf->authorize_arg;
    c->max_reply_bytes =
        conf->max_reply_bytes > 0 ? conf->max_reply_bytes : REPLY_MAX_BYTES;
    c->curl = curl_easy_init();
    c->url = strdup(conf->url);
    c->bearer = conf->bearer ? strdup(conf->bearer) : NULL;
    if (!c->curl || !c->url || (conf->bearer && !c->bearer)) {
        (void)error_set(err, ERR_NOMEM, "http client");
        goto fail;
    }
    if (parse_url(c, err) < 0)
        goto fail;
    *ret = c;
    return 0;
fail:
    http_client_destroy(c);
    return -1;
}

void http_client_destroy(struct http_client *c)
{
    if (!c)
        return;
    if (c->curl)
        curl_easy_cleanup(c->curl);
    free(c->url);
    free(c->bearer);
    free(c);
}

/* ---- one transfer ---------------------------------------------------------
 */

struct transfer {
    struct http_client *c;
    struct buf *body; /* of the reply */
    size_t body_start;
    int (*line)(void *arg, const char *text, size_t len, struct error *err);
    void *line_arg;
    struct buf *partial; /* a line without its end */
    struct buf *error_body;
    bool failed; /* *err is set by a callback of ours */
    struct error *err;
};

static long http_status(CURL *curl)
{
    long status = 0;
    (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static int take_body(struct transfer *t, struct buf *to, size_t start,
                     const char *p, size_t n)
{
    if (to->len - start + n > t->c->max_reply_bytes)
        return error_set(t->err, ERR_LIMIT,
                         "the daemon's reply is longer than %zu bytes",
                         t->c->max_reply_bytes);
    return buf_add(to, p, n, t->err);
}

static int take_lines(struct transfer *t, const char *p, size_t n)
{
    if (take_body(t, t->partial, 0, p, n) < 0)
        return -1;
    size_t at = 0;
    for (;;) {
        const char *text = buf_str(t->partial) + at;
        const char *end = memchr(text, '\n', t->partial->len - at);
        if (!end)
            break;
        size_t len = (size_t)(end - text);
        if (t->line(t->line_arg, text, len, t->err) < 0)
            return -1;
        at += len + 1;
    }
    if (at > 0)
        buf_drop(t->partial, at);
    return 0;
}

static size_t on_data(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    int rc = 0;
    n *= size;
    if (!t->line)
        rc = take_body(t, t->body, t->body_start, p, n);
    else if (http_status(t->c->curl) >= 400)
        rc = take_body(t, t->error_body, 0, p, n);
    else
        rc = take_lines(t, p, n);
    if (rc < 0)
        t->failed = true;
    return rc < 0 ? 0 : n;
}

static int add_header(struct curl_slist **list, struct error *err,
                      const char *name, const char *value)
{
    struct buf b = BUF_INIT;
    int rc = buf_addf(&b, err, "%s: %s", name, value);
    struct curl_slist *longer =
        rc == 0 ? curl_slist_append(*list, buf_str(&b)) : NULL;
    buf_clear(&b);
    if (rc < 0)
        return -1;
    if (!longer)
        return error_set(err, ERR_NOMEM, "http header");
    *list = longer;
    return 0;
}

static int add_authorization(const struct http_client *c,
                             const struct http_request *req,
                             struct curl_slist **list, struct error *err)
{
    struct buf b = BUF_INIT;
    int rc = 0;
    if (c->authorize)
        rc = c->authorize(c->authorize_arg, req, &b, err);
    else if (c->bearer)
        rc = buf_addf(&b, err, "Bearer %s", c->bearer);
    if (rc == 0 && b.len > 0)
        rc = add_header(list, err, "Authorization", buf_str(&b));
    buf_clear(&b);
    return rc;
}

static int make_headers(const struct http_client *c,
                        const struct http_request *req, struct curl_slist **ret,
                        struct error *err)
{
    const char *type =
        req->content_type ? req->content_type : "application/json";
    struct curl_slist *list = NULL;
    /* Without "Expect:" libcurl asks leave for a long body and waits. */
    if (add_header(&list, err, "Expect", "") < 0 ||
        (req->body && add_header(&list, err, "Content-Type", type) < 0) ||
        add_authorization(c, req, &list, err) < 0 ||
        (req->idempotency_key &&
         add_header(&list, err, "Idempotency-Key", req->idempotency_key) < 0)) {
        curl_slist_free_all(list);
        return -1;
    }
    *ret = list;
    return 0;
}

static int set_up(struct http_client *c, const struct http_request *req,
                  const char *url, struct transfer *t, double timeout_s)
{
    bool post = strcmp(req->method, "POST") == 0;
    CURL *h = c->curl;
    CURLcode rc = curl_easy_setopt(h, CURLOPT_URL, url);
    rc |= curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http");
    rc |= curl_easy_setopt(h, CURLOPT_PROXY, "");
    rc |= curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
    rc |= curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    rc |= curl_easy_setopt(h, CURLOPT_USERAGENT, "mgpu");
    rc |= curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_data);
    rc |= curl_easy_setopt(h, CURLOPT_WRITEDATA, t);
    rc |= curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, 5000L);
    /* Rounded up: 0 would be no limit at all. */
    rc |= curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, (long)ceil(timeout_s * 1000));
    if (post) {
        rc |= curl_easy_setopt(h, CURLOPT_POST, 1L);
        rc |=
            curl_easy_setopt(h, CURLOPT_POSTFIELDS, req->body ? req->body : "");
        rc |= curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)(req->body ? req->body_len : 0));
        rc |= curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, NULL);
    } else {
        rc |= curl_easy_setopt(h, CURLOPT_HTTPGET, 1L);
        rc |= curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST,
                               strcmp(req->method, "GET") == 0 ? NULL
                                                               : req->method);
    }
    return rc == CURLE_OK ? 0 : -1;
}

/* A unix socket whose queue of connections is full refuses at once with EAGAIN,
 * which libcurl does not report: a daemon is there, and accepts nobody. */
static bool is_full(const struct http_client *c)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    static const char scheme[] = "unix:";
    const char *path = c->url + sizeof(scheme) - 1;
    if (strncmp(c->url, scheme, sizeof(scheme) - 1) != 0 ||
        strlen(path) >= sizeof(to.sun_path))
        return false;
    memcpy(to.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool is = fd >= 0 &&
              connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 &&
              errno == EAGAIN;
    if (fd >= 0)
        (void)close(fd);
    return is;
}

static int fail_transfer(const struct transfer *t, CURLcode rc)
{
    const struct http_client *c = t->c;
    long os = 0;
    if (t->failed)
        return -1;
    switch (rc) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        (void)curl_easy_getinfo(c->curl, CURLINFO_OS_ERRNO, &os);
        if (os == EACCES || os == EPERM)
            return error_set(t->err, ERR_DENIED,
                             "'%s': permission denied: it is another user's "
                             "daemon, or its administrator has kept it to a "
                             "group (controller.socket_group)",
                             c->url);
        if (is_full(c))
            return error_set(t->err, ERR_UNAVAIL,
                             "the daemon at '%s' accepts no connection: it is "
                             "stopped (SIGSTOP, SIGTSTP), or has far too many "
                             "clients",
                             c->url);
        return error_set(
            t->err, ERR_UNAVAIL, "no daemon answers at '%s'%s", c->url,
            c->url[0] == 'u' ? ": start one with 'mgpu-ctld --local'" : "");
    case CURLE_OPERATION_TIMEDOUT:
        return error_set(t->err, ERR_TIMEOUT,
                         "the daemon at '%s' did not answer in time", c->url);
    case CURLE_OUT_OF_MEMORY:
        return error_set(t->err, ERR_NOMEM, "http request");
    default:
        return error_set(t->err, ERR_UNAVAIL, "lost the connection to '%s': %s",
                         c->url, curl_easy_strerror(rc));
    }
}

static bool is_connect_failure(CURLcode rc)
{
    return rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_HOST;
}

static bool is_lost(CURLcode rc)
{
    return rc == CURLE_GOT_NOTHING || rc == CURLE_SEND_ERROR ||
           rc == CURLE_RECV_ERROR || rc == CURLE_PARTIAL_FILE;
}

static void pause_for(double s)
{
    struct timespec ts = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        continue;
}

/* One try. What authorizes a request may be good for one only, so libcurl
 * must not repeat it by itself, as it does when a connection that it kept
 * turns out to be dead. */
static int try_once(struct http_client *c, const struct http_request *req,
                    const struct transfer *t, CURLcode *ret)
{
    struct curl_slist *headers = NULL;
    if (make_headers(c, req, &headers, t->err) < 0)
        return -1;
    (void)curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, headers);
    (void)curl_easy_setopt(c->curl, CURLOPT_FRESH_CONNECT,
                           c->authorize ? 1L : 0L);
    *ret = curl_easy_perform(c->curl);
    (void)curl_easy_setopt(c->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    long sent_bytes = 0;
    (void)curl_easy_getinfo(c->curl, CURLINFO_REQUEST_SIZE, &sent_bytes);
    if (*ret != CURLE_OK && sent_bytes > 0)
        c->in_doubt = true;
    return 0;
}

/* One request with its repeats. `repeatable` says whether the request itself
 * may be sent twice; failing to connect is always safe to repeat. */
static int perform(struct http_client *c, const struct http_request *req,
                   struct transfer *t, double timeout_s, bool repeatable)
{
    struct buf url = BUF_INIT;
    int ret = -1;
    if (buf_addf(&url, t->err, "%s%s", c->base, req->path) < 0)
        goto out;
    if (set_up(c, req, buf_str(&url), t, timeout_s) < 0) {
        (void)error_set(t->err, ERR_INTERNAL, "http request '%s'", req->path);
        goto out;
    }
    double pause_s = pause_first_s;
    double until_s = clock_real.now_s(&clock_real) + c->connect_timeout_s;
    for (;;) {
        CURLcode rc = CURLE_OK;
        if (try_once(c, req, t, &rc) < 0)
            break;
        if (rc == CURLE_OK) {
            ret = 0;
            break;
        }
        bool again =
            is_connect_failure(rc) || (repeatable && is_lost(rc) && !t->failed);
        if (!again || clock_real.now_s(&clock_real) + pause_s > until_s) {
            ret = fail_transfer(t, rc);
            break;
        }
        if (t->body && t->body->data) { /* what came of the lost reply */
            t->body->len = t->body_start;
            t->body->data[t->body_start] = '\0';
        }
        pause_for(pause_s);
        pause_s = pause_s * 2 < pause_max_s ? pause_s * 2 : pause_max_s;
    }
out:
    buf_clear(&url);
    return ret;
}

bool http_client_in_doubt(const struct http_client *c)
{
    return c->in_doubt;
}

int http_client_call(struct http_client *c, const struct http_request *req,
                     int *ret_status, struct buf *body, struct error *err)
{
    struct transfer t = {
        .c = c, .body = body, .body_start = body->len, .err = err};
    bool repeatable = req->idempotency_key || strcmp(req->method, "GET") == 0;
    if (perform(c, req, &t, c->timeout_s, repeatable) < 0)
        return -1;
    *ret_status = (int)http_status(c->curl);
    return 0;
}

int http_client_stream(struct http_client *c, const char *path,
                       int (*line)(void *arg, const char *text, size_t len,
                                   struct error *err),
                       void *arg, int *ret_status, struct buf *error_body,
                       struct error *err)
{
    struct buf partial = BUF_INIT;
    struct http_request req = {.method = "GET", .path = path};
    struct transfer t = {.c = c,
                         .line = line,
                         .line_arg = arg,
                         .partial = &partial,
                         .error_body = error_body,
                         .err = err};
    int rc = perform(c, &req, &t, c->timeout_s, false);
    if (rc == 0)
        *ret_status = (int)http_status(c->curl);
    if (rc == 0 && partial.len > 0) /* a last line without its newline */
        rc = line(arg, buf_str(&partial), partial.len, err);
    buf_clear(&partial);
    return rc;
}

/* ---- replies --------------------------------------------------------------
 */

/* The code of a reply whose body is not the daemon's. Its HTTP library answers
 * so when it cannot read the request, as when memory is short. */
static enum err_code code_of(int status)
{
    switch (status) {
    case 405:
    case 417:
        return ERR_INVAL;
    case 401:
    case 403:
        return ERR_DENIED;
    case 404:
        return ERR_NOTFOUND;
    case 408:
    case 504:
        return ERR_TIMEOUT;
    case 409:
        return ERR_STATE;
    case 413:
    case 429:
    case 431:
        return ERR_LIMIT;
    case 503:
        return ERR_BUSY;
    default:
        return ERR_INTERNAL;
    }
}

int http_reply_error(int status, const struct buf *body, struct error *err)
{
    const char *word = NULL, *message = NULL;
    json_t *o = json_loadb(buf_str(body), body->len, 0, NULL);
    if (o && json_unpack(o, "{s:{s:s, s:s}}", "error", "code", &word, "message",
                         &message) == 0)
        (void)error_set(err, error_from_word(word), "%s", message);
    else if (status == 413)
        (void)error_set(err, ERR_LIMIT, "the daemon refused: request too long");
    else
        (void)error_set(err, code_of(status),
                        "the daemon answered with HTTP status %d", status);
    json_decref(o);
    return -1;
}
