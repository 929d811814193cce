/* http_rules.c - the server against clients that break the rules, and with
 * its socket. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/base/http_host.h"

enum { PER_UID = 6 };

static char dir[] = "/tmp/mgpu-http.XXXXXX";
static char sock[64], url[80];

static const struct http_route routes[] = {{"GET", "/v1/fail", host_on_fail},
                                           {"GET", "/v1/late", host_on_late},
                                           {NULL, NULL, NULL}};

static const struct http_server_conf server = {
    .routes = routes,
    .max_body_bytes = 1000,
    .request_timeout_s = 60, /* of a test that was not let run */
    .idle_timeout_s = 60,
    .max_clients = 100,
    .max_clients_per_uid = PER_UID,
};

static void test_rules(void)
{
    int fd = dial_unix(sock);
    say(fd, "HEAD /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    const char *text = hear(fd, "\r\n\r\n");
    ok(strstr(text, " 405 ") && strstr(text, "Allow: GET"), "HEAD: 405");
    say(fd, "DELETE /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    text = hear(fd, "}}");
    ok(strncmp(text, "HTTP/1.1 405", 12) == 0, "kept alive; DELETE: 405");
    /* Two requests in one packet. */
    say(fd, "GET /v1/late HTTP/1.1\r\nHost: x\r\n\r\n"
            "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    text = hear(fd, "FENCED");
    ok(strstr(text, "late") && strstr(text, "FENCED"), "pipelined requests");
    (void)close(fd);

    fd = dial_unix(sock);
    say(fd, "\x16\x03\x01 hello\r\n\r\n");
    text = hear(fd, NULL);
    ok(strncmp(text, "HTTP/1.1 400", 12) == 0 && strstr(text, "mgpu.error/1") &&
           !strstr(text, "<HTML>"),
       "S02: garbage: 400, in JSON: %.12s", text);
    (void)close(fd);

    fd = dial_unix(sock);
    say(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/fail\r\n\r\n");
    text = hear(fd, NULL);
    ok(strstr(text, "FENCED") && strstr(text, "the first line of the request"),
       "a second request without a version: likewise");
    (void)close(fd);

    fd = dial_unix(sock);
    say(fd, "GET /v1/\xb0x HTTP/1.1\r\nHost: x\r\n\r\n");
    text = hear(fd, "}}");
    ok(strncmp(text, "HTTP/1.1 404", 12) == 0 && strstr(text, "'/v1/?x'"),
       "S02: what is no UTF-8 is not there, and no fault of ours: %.12s", text);
    (void)close(fd);

    static char big[20000];
    memset(big, 'h', sizeof(big) - 1);
    fd = dial_unix(sock);
    say(fd, "GET /v1/late HTTP/1.1\r\nHost: x\r\nX: ");
    say(fd, big);
    say(fd, "\r\n\r\n");
    text = hear(fd, NULL); /* it ends the connection */
    ok(strstr(text, "HTTP/1.1 431") == text && strstr(text, "mgpu.error/1") &&
           !strstr(text, "late") && !strstr(text, "<HTML>"),
       "S02: headers too long: JSON, and no handler sees it: %.12s", text);
    (void)close(fd);

    fd = dial_unix(sock);
    say(fd, "FROB /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    text = hear(fd, "}}");
    ok(strncmp(text, "HTTP/1.1 405", 12) == 0 && strstr(text, "mgpu.error/1"),
       "an unknown method: JSON: %.12s", text);
    (void)close(fd);
}

/* Two readers could take it for different requests: one answer, no handler. */
static void test_framing(void)
{
    static const struct {
        const char *name, *text, *says;
    } heads[] = {
        {"two lengths",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
         "Content-Length: 40\r\n\r\nabcGET /v1/fail HTTP/1.1\r\n\r\n",
         "two Content-Length"},
        {"a length with a sign",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\nab",
         "must be a number"},
        {"a length and a second one in it",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length: 2, 2\r\n\r\nab",
         "must be a number"},
        {"no length",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
         "must be a number"},
        {"a length and chunks",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
         "transfer-encoding: chunked\r\n\r\n0\r\n\r\n",
         "both Content-Length"},
        {"another encoding",
         "POST /v1/fail HTTP/1.1\r\nHost: x\r\n"
         "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         "must be chunked"},
        {"a blank before the colon",
         "GET /v1/fail HTTP/1.1\r\nHost : x\r\n\r\n", "the name of a header"},
        {"a folded header",
         "GET /v1/fail HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", "folded"},
        {"a header folded with a tab",
         "GET /v1/fail HTTP/1.1\r\nHost: x\r\nX: a\r\n\tb\r\n\r\n", "folded"},
        {"no colon", "GET /v1/fail HTTP/1.1\r\nHost: x\r\nfoo\r\n\r\n",
         "no colon"},
        {"no name", "GET /v1/fail HTTP/1.1\r\n: x\r\n\r\n", "no name"},
        {"two hosts", "GET /v1/fail HTTP/1.1\r\nHost: x\r\nhOST: y\r\n\r\n",
         "two Host"},
        {"a carriage return alone",
         "GET /v1/fail HTTP/1.1\r\nHost: x\rContent-Length: 3\r\n\r\n",
         "carriage return"},
        {"HTTP/0.9", "GET /v1/fail HTTP/0.9\r\nHost: x\r\n\r\n", "first line"},
        {"no version", "GET /v1/fail\r\nHost: x\r\n\r\n", "first line"},
        {"HTTP/2.0", "GET /v1/fail HTTP/2.0\r\nHost: x\r\n\r\n", "first line"},
        {"an empty line before it",
         "\r\nGET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n", "first line"},
        {"HTTP/1.10", "GET /v1/fail HTTP/1.10\r\nHost: x\r\n\r\n",
         "first line"},
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        /* In one piece, and byte by byte. */
        for (int part = 0; part < 2; part++) {
            char one[2] = "";
            int fd = dial_unix(sock);
            for (const char *p = heads[i].text; part && *p; p++) {
                one[0] = *p;
                if (send(fd, one, 1, MSG_NOSIGNAL) < 0)
                    break; /* it was refused before */
            }
            if (!part)
                say(fd, heads[i].text);
            const char *text = hear(fd, NULL); /* it ends the connection */
            ok(strncmp(text, "HTTP/1.1 400", 12) == 0 &&
                   strstr(text, heads[i].says) && !strstr(text, "FENCED") &&
                   !strstr(text + 1, "HTTP/1.1 4"),
               "S14: %s: 400, and the end: %.300s", heads[i].name, text);
            (void)close(fd);
        }
    }
    int fd = dial_unix(sock);
    say(fd,
        "GET /v1/fail HTTP/1.0\r\nHOST:x\nAccept:  a b \t\r\n"
        "X-Utf8: \xc3\xa9\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    const char *text = hear(fd, NULL);
    ok(strstr(text, "FENCED") != NULL, "what is allowed is served: %s", text);
    (void)close(fd);
}

/* A daemon that is stopped, with as many clients in line as the kernel keeps.
 */
static void test_full(void)
{
    enum { TRIES = 64 };
    int fds[TRIES], n = 0;
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    struct http_client *c = NULL;
    struct http_client_conf conf = {
        .url = url, .connect_timeout_s = 0.1, .timeout_s = 60};
    struct http_request req = {.method = "GET", .path = "/v1/fail"};
    struct buf body = BUF_INIT;
    struct error err = ERROR_INIT;
    int status = 0, s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", sock);
    if (s < 0 || bind(s, (struct sockaddr *)&to, sizeof(to)) < 0 ||
        listen(s, 1) < 0 || http_client_create(&conf, &c, &err) < 0)
        abort();
    for (; n < TRIES; n++) {
        fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fds[n], (struct sockaddr *)&to, sizeof(to)) < 0)
            break;
    }
    ok(n < TRIES && errno == EAGAIN, "%d clients are in line", n);
    ok(http_client_call(c, &req, &status, &body, &err) < 0 &&
           err.code == ERR_UNAVAIL &&
           strstr(err.msg, "accepts no connection") &&
           !strstr(err.msg, "start one"),
       "one more is told why: %s", err.msg);
    (void)close(s);
    (void)unlink(sock);
    ok(http_client_call(c, &req, &status, &body, &err) < 0 &&
           strstr(err.msg, "start one"),
       "without a daemon it is told to start one: %s", err.msg);
    for (int i = 0; i <= n && i < TRIES; i++)
        (void)close(fds[i]);
    http_client_destroy(c);
    buf_clear(&body);
}

static void test_slow(void)
{
    struct http_server_conf strict = server;
    struct host h;
    /* Headers alone: what is whole, or has but begun, is not in a hurry. */
    strict.header_timeout_s = 0.3;
    host_start(&h, &strict, sock, NULL);
    int fd = dial_unix(sock);
    bool is_cut = say_slowly(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\nX: ");
    ok(is_cut && strstr(hear(fd, NULL), "headers of the request"),
       "S03: slow headers are cut");
    (void)close(fd);
    fd = dial_unix(sock);
    say(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    (void)hear(fd, "}}");
    say(fd, "GET /v1/fail HTT");
    ok(strstr(hear(fd, NULL), "headers of the request") != NULL,
       "S03: those of a second request, too");
    (void)close(fd);
    fd = dial_unix(sock);
    say(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/fail HTT");
    const char *text = hear(fd, NULL);
    const char *second = text[0] ? strstr(text + 1, "HTTP/1.1 ") : NULL;
    ok(second != NULL && strstr(second, "headers of the request") != NULL,
       "S03: also when they came with the first");
    (void)close(fd);
    fd = dial_unix(sock);
    say(fd, "POST /v1/fail HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n");
    (void)say_slowly(fd, "{\"a\":");
    ok(strstr(hear(fd, "}}"), " 405 ") != NULL,
       "S03: a body may take longer than the headers");
    (void)close(fd);
    host_stop(&h);

    strict.header_timeout_s = 0;
    strict.request_timeout_s = 0.3;
    host_start(&h, &strict, sock, NULL);
    fd = dial_unix(sock);
    is_cut = say_slowly(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\nX: ");
    ok(is_cut && strstr(hear(fd, NULL), " 408 "), "S03: a slow request is cut");
    (void)close(fd);

    fd = dial_unix(sock);
    ok(strstr(hear(fd, NULL), " 408 ") != NULL, "a silent connection is cut");
    (void)close(fd);

    fd = dial_unix(sock);
    say(fd, "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
    text = hear(fd, "}}"); /* at once, or cut when it was sent late */
    say(fd, "GET /v1/fail HTT");
    if (strstr(text, " 408 ") == NULL)
        text = hear(fd, NULL);
    ok(strstr(text, " 408 ") != NULL, "so is a second request half sent");
    (void)close(fd);
    host_stop(&h);
}

static void test_cap(void)
{
    int fds[PER_UID];
    const char *text = "";
    for (int i = 0; i < PER_UID; i++) {
        fds[i] = dial_unix(sock);
        say(fds[i], "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
        text = hear(fds[i], "}}");
    }
    ok(strstr(text, "FENCED") != NULL, "%d connections are served", PER_UID);
    int fd = dial_unix(sock);
    text = hear(fd, NULL);
    ok(strstr(text, " 503 ") && strstr(text, "BUSY"),
       "S03: one more is refused");
    (void)close(fd);
    for (int i = 0; i < PER_UID; i++)
        (void)close(fds[i]);
    /* Connections that end without a word must not count for ever. */
    for (int i = 0; i < 3 * PER_UID; i++)
        (void)close(dial_unix(sock));
    struct http_client *c = client_of(url, NULL);
    struct buf b = BUF_INIT;
    int status = 0;
    for (int i = 0; i < 3000 && status != 403; i++) {
        status = get(c, "/v1/fail", &b);
        (void)poll(NULL, 0, status == 403 ? 0 : 20);
    }
    is_int(status, 403, "and served again when the others have left");
    buf_clear(&b);
    http_client_destroy(c);
}

static _Atomic bool lets_in;

static bool says_so(void *arg, int64_t uid)
{
    (void)arg;
    return uid == (int64_t)getuid() && lets_in;
}

/* All places are taken: whoever may sweep up gets one. */
static void test_kept(void)
{
    static struct http_server_conf full;
    static char path[72];
    struct host h;
    int fds[2 + HTTP_MORE];
    full = server;
    full.max_clients = 2;
    full.max_clients_per_uid = 64;
    full.is_let_in = says_so;
    (void)snprintf(path, sizeof(path), "%s/kept", dir);
    host_start(&h, &full, path, NULL);
    int n_served = 0;
    lets_in = false;
    for (int i = 0; i < 2 + HTTP_MORE; i++) {
        lets_in = i >= 2;
        fds[i] = dial_unix(path);
        say(fds[i], "GET /v1/fail HTTP/1.1\r\nHost: x\r\n\r\n");
        n_served += strstr(hear(fds[i], "}}"), "FENCED") != NULL;
        lets_in = false;
        if (i != 1)
            continue;
        int fd = dial_unix(path);
        ok(strstr(hear(fd, NULL), " 503 ") != NULL, "S04: all are taken");
        (void)close(fd);
    }
    is_int(n_served, 2 + HTTP_MORE, "S04: but for those who are let in");
    lets_in = true;
    int fd = dial_unix(path);
    ok(strstr(hear(fd, NULL), " 503 ") != NULL, "S04: who are not endless");
    (void)close(fd);
    for (int i = 0; i < 2 + HTTP_MORE; i++)
        (void)close(fds[i]);
    host_stop(&h);
}

static void test_listen(struct host *h)
{
    struct host second;
    struct stat st;

    ok(stat(sock, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
    host_start(&second, &server, sock, NULL);
    ok(second.rc < 0 && second.err.code == ERR_STATE,
       "a second server is refused: %s", second.err.msg);
    host_stop(&second);
    ok(stat(sock, &st) == 0, "and leaves the first one's socket alone");

    host_stop(h);
    ok(stat(sock, &st) < 0, "the socket goes with its server");
    struct http_client *c = NULL;
    struct http_client_conf hurried = {
        .url = url, .connect_timeout_s = 2, .timeout_s = 60};
    struct error err;
    struct buf b = BUF_INIT;
    is_int(http_client_create(&hurried, &c, &err), 0, "who comes later");
    is_int(get(c, "/v1/fail", &b), -(int)ERR_UNAVAIL, "  finds nobody");

    /* What a killed server leaves: a socket without a listener. */
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", sock);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)bind(fd, (struct sockaddr *)&addr, sizeof(addr));
    (void)close(fd);
    host_start(h, &server, sock, NULL);
    is_int(h->rc, 0, "a stale socket is replaced");
    is_int(get(c, "/v1/fail", &b), 403, "and the same client goes on");
    buf_clear(&b);
    http_client_destroy(c);
}

int main(void)
{
    struct host h;
    (void)signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(dir))
        return 1;
    (void)snprintf(sock, sizeof(sock), "%s/sock", dir);
    (void)snprintf(url, sizeof(url), "unix:%s", sock);

    test_full();
    int before = n_fds();
    test_slow();
    test_kept();
    host_start(&h, &server, sock, NULL);
    test_rules();
    test_framing();
    test_cap();
    test_listen(&h);
    host_stop(&h);
    is_int(n_fds(), before, "no descriptor is left open");
    (void)rmdir(dir);
    return tap_done();
}
