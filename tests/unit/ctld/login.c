/* login.c - users over TCP: a credential is good for one request of one user,
 * and munged's troubles are not the daemon's (S01, S07). */
#include "jobs/http/cred_munge.h"
#include "jobs/http/http_digest.h"
#include "tests/unit/ctld/tcp.h"

#if HAVE_MUNGE
#include <munge.h>
#include <sys/syscall.h>

#include "tests/munged.h"

enum { OWNER = 1000, OTHER = 1001, CAP = 4 };

static struct rig r;
static struct munged one, two;

static void with_munge(struct ctld_conf *conf)
{
    conf->listen = "127.0.0.1:0";
    conf->auth_remote = AUTH_MUNGE;
    conf->munge_socket = one.socket;
    conf->serves_all = true;
}

static void few(struct ctld_conf *conf)
{
    with_munge(conf);
    conf->max_clients_per_uid = CAP;
}

/* "Authorization: ..", and the idempotency key. The credential is for `req`,
 * whatever is sent with it. */
static const char *sign(const struct munged *m, const struct http_request *req,
                        int ttl)
{
    static char text[2048];
    char digest[DIGEST_HEX_CAP], *cred = NULL;
    munge_ctx_t ctx = munge_ctx_create();
    if (http_request_digest(req, digest, NULL) < 0 ||
        munge_ctx_set(ctx, MUNGE_OPT_SOCKET, m->socket) != EMUNGE_SUCCESS ||
        munge_ctx_set(ctx, MUNGE_OPT_TTL, ttl) != EMUNGE_SUCCESS ||
        munge_encode(&cred, ctx, digest, DIGEST_HEX_CAP - 1) != EMUNGE_SUCCESS)
        tap_diag("munge_encode failed");
    (void)snprintf(text, sizeof(text), "Authorization: MUNGE %s\r\n%s%s%s",
                   cred ? cred : "",
                   req->idempotency_key ? "Idempotency-Key: " : "",
                   req->idempotency_key ? req->idempotency_key : "",
                   req->idempotency_key ? "\r\n" : "");
    free(cred);
    munge_ctx_destroy(ctx);
    return text;
}

static struct http_request request(const char *method, const char *path,
                                   const char *body, const char *key)
{
    return (struct http_request){.method = method,
                                 .path = path,
                                 .body = body,
                                 .body_len = body ? strlen(body) : 0,
                                 .idempotency_key = key};
}

static int send_as_signed(const struct http_request *req, const char *headers)
{
    return tcp(&r, "127.0.0.1", req->method, req->path, headers, req->body);
}

static int remote(const char *method, const char *path, const char *body)
{
    struct http_request req = request(method, path, body, NULL);
    return send_as_signed(&req, sign(&one, &req, 0));
}

/* This thread alone; munged asks the kernel, too. */
static int remote_as(uid_t uid, const char *method, const char *path,
                     const char *body)
{
    if (syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1) < 0)
        exit(1);
    int status = remote(method, path, body);
    if (syscall(SYS_setresuid, (uid_t)-1, 0, (uid_t)-1) < 0)
        exit(1);
    return status;
}

static void refused(int status, const char *why, const char *what)
{
    bool good = status == 403 && has(&r, "\"DENIED\"") && has(&r, why);
    ok(good, "%s", what);
    if (!good)
        tap_diag("%d %s", status, buf_str(&r.body));
}

static void begin(void (*tweak)(struct ctld_conf *conf))
{
    rig_init(&r);
    (void)chmod(r.dir, 0755);
    r.tweak = tweak;
    rig_up(&r, NULL);
}

static void end(void)
{
    rig_down(&r);
    rig_clear(&r);
}

/* ---- tests ----------------------------------------------------------------
 */

static void test_users(void)
{
    char me[48];
    (void)snprintf(me, sizeof(me), "\"uid\":%ld", (long)getuid());
    is_int(
        remote("POST", "/v1/jobs",
               "{\"uid\":7,\"user\":\"eve\",\"spec\":{\"version\":1,\"kind\":"
               "\"command\",\"name\":\"one\",\"command\":[\"true\"],"
               "\"resources\":{\"gpus\":1}}}"),
        201, "a submit");
    ok(has(&r, me) && !has(&r, "eve"), "is the credential's owner's");
    is_int(remote("GET", "/v1/jobs?user=me&limit=5", NULL), 200, "a query");
    ok(has(&r, "\"name\":\"one\""), "is answered");
    is_int(remote("GET", "/v1/jobs/1/events", NULL), 200, "events");
    is_int(remote("GET", "/v1/jobs/1/logs", NULL), 200, "a log");
    is_int(remote("POST", "/v1/jobs/1/cancel", "{}"), 200, "a cancel");
    is_int(remote("GET", "/v1/watch?job=1", NULL), 200, "a stream");
    ok(has(&r, "\"state\":\"CANCELLED\"") && has(&r, "\r\n0\r\n"),
       "comes to its end");
    is_int(remote("GET", "/v1/no/such", NULL), 404, "and a wrong path");
}

static void test_strangers(void)
{
    is_int(remote_as(OWNER, "POST", "/v1/jobs", SPEC("hush")), 201, "a job");
    ok(has(&r, "\"uid\":1000") && has(&r, "\"id\":2"), "of another uid");
    refused(remote_as(OTHER, "POST", "/v1/jobs/2/cancel", "{}"),
            "job 2 belongs to another user", "is not a stranger's to cancel");
    ok(!has(&r, "hush"), "nor to know by name");
    refused(remote_as(OTHER, "GET", "/v1/jobs/2/events", NULL), "another user",
            "nor to read");
    is_int(remote_as(OWNER, "POST", "/v1/jobs/2/cancel", "{}"), 200,
           "it is its owner's");
    is_int(remote_as(OTHER, "GET", "/v1/jobs?user=me", NULL), 200, "one's own");
    ok(has(&r, "\"jobs\":[]"), "are none of these");
}

/* Each request is like the one that was signed, but for one thing. */
static void test_other_request(void)
{
    const struct http_request like =
        request("POST", "/v1/jobs/1/hold?x=1", "{}", "k1");
    static const char why[] = "is for another request";
    struct http_request q = like;
    q.path = "/v1/jobs/1/cancel?x=1";
    refused(send_as_signed(&q, sign(&one, &like, 0)), why, "another path");
    q = like;
    q.path = "/v1/jobs/1/hold?x=2";
    refused(send_as_signed(&q, sign(&one, &like, 0)), why, "another query");
    q = like;
    q.path = "/v1/jobs/1/hold";
    refused(send_as_signed(&q, sign(&one, &like, 0)), why, "no query");
    q = like;
    q.body = "{ }";
    refused(send_as_signed(&q, sign(&one, &like, 0)), why, "another body");
    q.body = NULL;
    refused(send_as_signed(&q, sign(&one, &like, 0)), why, "no body");
    struct http_request get = request("GET", "/v1/jobs", NULL, NULL);
    q = request("POST", "/v1/jobs", NULL, NULL);
    refused(send_as_signed(&q, sign(&one, &get, 0)), why, "another method");
    char headers[2048];
    (void)snprintf(headers, sizeof(headers), "%s", sign(&one, &like, 0));
    *strstr(headers, "Key: k1") = 'k';
    strstr(headers, "key: k1")[6] = '2';
    refused(send_as_signed(&like, headers), why, "another key");
}

static void test_stolen(void)
{
    struct http_request q = request("GET", "/v1/jobs", NULL, NULL);
    char used[2048];
    (void)snprintf(used, sizeof(used), "%s", sign(&one, &q, 0));
    is_int(send_as_signed(&q, used), 200, "a credential");
    refused(send_as_signed(&q, used), "was used before", "S07: replayed");
    refused(tcp(&r, "127.0.0.2", "GET", "/v1/jobs", used, NULL),
            "was used before", "from elsewhere, too");
    refused(send_as_signed(&q, sign(&two, &q, 0)), "another key",
            "made with another key");
    refused(send_as_signed(&q, "Authorization: MUNGE garbage\r\n"),
            "cannot be read", "garbage");
    refused(send_as_signed(&q, "Authorization: MUNGE \r\n"), "credential",
            "nothing");
    refused(send_as_signed(&q, "Authorization: Bearer 0123\r\n"),
            "needs a MUNGE credential", "a worker's token");
    refused(send_as_signed(&q, "X-Uid: 0\r\n"), "needs a MUNGE credential",
            "one's own word");
    /* The later one expires later. */
    struct buf probe = BUF_INIT;
    (void)snprintf(used, sizeof(used), "%s", sign(&one, &q, 1));
    if (buf_addstr(&probe, sign(&one, &q, 1), NULL) < 0)
        exit(1);
    for (int i = 0; i < 1500; i++) {
        (void)send_as_signed(&q, buf_str(&probe));
        if (has(&r, "expired"))
            break;
        (void)poll(NULL, 0, 20);
    }
    refused(send_as_signed(&q, used), "has expired", "expired");
    buf_clear(&probe);
    is_int(get(&r, "/metrics"), 200, "metrics");
    ok(!has(&r, "mgpu_refused_total 0\n"), "count the refused");
}

/* munged stands still: who needs it waits, and nobody else. */
static void test_hung(void)
{
    struct http_request q = request("GET", "/v1/jobs", NULL, NULL);
    char first[2048];
    (void)snprintf(first, sizeof(first), "%s", sign(&one, &q, 0));
    const char *headers = sign(&one, &q, 0);
    (void)kill(one.pid, SIGSTOP);
    int left = tcp_dial(&r, "127.0.0.1"), fd = tcp_dial(&r, "127.0.0.1");
    tcp_say(left, q.method, q.path, first, NULL);
    (void)close(left);
    tcp_say(fd, q.method, q.path, headers, NULL);
    is_int(get(&r, "/v1/jobs"), 200, "the socket answers meanwhile");
    is_int(get(&r, "/readyz"), 200, "all is well");
    struct pollfd p = {.fd = fd, .events = POLLIN};
    bool waits = poll(&p, 1, 0) == 0;
    (void)kill(one.pid, SIGCONT);
    int status = tcp_hear(&r, fd, "}");
    /* 503 where all this took longer than libmunge waits, seconds. */
    ok(waits || status == 503, "the other one waits");
    ok(status == 200 || status == 503, "and is answered when munged is: %d",
       status);
    (void)close(fd);
    is_int(remote("GET", "/v1/jobs", NULL), 200, "who asks anew is served");
}

static void test_caps(void)
{
    struct http_request q = request("GET", "/v1/jobs", NULL, NULL);
    int fds[CAP + 1];
    begin(few);
    for (int i = 0; i < CAP; i++) {
        fds[i] = tcp_dial(&r, i % 2 ? "127.0.0.3" : "127.0.0.1");
        tcp_say(fds[i], q.method, q.path, sign(&one, &q, 0), NULL);
        if (tcp_hear(&r, fds[i], "]}") != 200)
            ok(false, "%d of one user are served", i + 1);
    }
    fds[CAP] = tcp_dial(&r, "127.0.0.4");
    tcp_say(fds[CAP], q.method, q.path, sign(&one, &q, 0), NULL);
    is_int(tcp_hear(&r, fds[CAP], "}}"), 429, "one more is not, wherever from");
    ok(has(&r, "too many connections") && has(&r, "retry_after_s"),
       "and is told why, and when to come again");
    for (int i = 0; i <= CAP; i++)
        (void)close(fds[i]);
    end();
}

/* Last: munged is gone after it. */
static void test_away(void)
{
    struct http_request q = request("GET", "/v1/jobs", NULL, NULL);
    char headers[2048];
    (void)snprintf(headers, sizeof(headers), "%s", sign(&one, &q, 0));
    munged_stop(&one);
    is_int(send_as_signed(&q, headers), 503, "without munged: not now");
    ok(has(&r, "munged does not answer"), "and why");
    is_int(get(&r, "/v1/jobs"), 200, "the socket needs none");
}

int main(void)
{
    if (!munged_start(&one) || !munged_start(&two)) {
        ok(false, "munged did not start");
        return tap_done();
    }
    test_caps();
    begin(with_munge);
    test_users();
    if (getuid() == 0)
        test_strangers();
    else
        tap_diag("to be somebody else needs root");
    test_other_request();
    test_stolen();
    test_hung();
    test_away();
    end();
    munged_stop(&two);
    return tap_done();
}
#else
static void with_munge(struct ctld_conf *conf)
{
    conf->listen = "127.0.0.1:0";
    conf->auth_remote = AUTH_MUNGE;
}

int main(void)
{
    struct rig r;
    struct error err = ERROR_INIT;
    rig_init(&r);
    with_munge(&r.conf);
    struct ctld_parts parts = {.clock = &clock_real, .conf = &r.conf};
    ok(ctld_create(&parts, &r.ctld, &err) < 0 && err.code == ERR_CONFIG,
       "built without: %s", err.msg);
    rig_clear(&r);
    return tap_done();
}
#endif
