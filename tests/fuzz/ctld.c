/* ctld.c - libFuzzer: requests as the whole daemon interprets them: paths,
 * queries, filters, headers, bodies; of users and of an attempt's worker.
 *
 * The input is requests with a line "%%" between them, each "METHOD TARGET",
 * headers, an empty line and a body; lengths are added, so that most of what
 * is tried gets past HTTP (http.c has that). "$T" in a header is the token of
 * the newest attempt.
 *
 * Each is answered, no answer says that the daemon is at its wits' end, and
 * what says it is JSON is. A daemon that was asked for a change is replaced,
 * so that an input does the same again.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdint.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "jobs/base/buf.h"
#include "jobs/base/clock.h"
#include "jobs/base/log.h"
#include "scheduler/ctld/ctld_internal.h"
#include "tests/unit/ctld/rig.h"

enum { REQUESTS_MAX = 8, ANSWER_MAX = 1 << 22, STREAM_TURNS = 8 };
static const double DEADLINE_S = 30;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rig rig;
static struct buf said = BUF_INIT; /* the answer to the last request */

/* A job that runs, one that is held, a sweep, one that has ended; rows. */
static const char *const world[] = {
    "POST /v1/jobs\nIdempotency-Key: a\n\n{\"spec\":{\"version\":1,\"kind\":"
    "\"command\",\"name\":\"first\",\"command\":[\"true\"],\"labels\":{\"a\":"
    "\"b\",\"c\":\"d=e\"}}}",
    "POST /v1/attempts/1/1/claim\nAuthorization: Bearer $T\n\n"
    "{\"holder\":\"h 1 2\"}",
    "POST /v1/attempts/1/1/rows?rank=0&offset=0\nAuthorization: Bearer $T\n\n"
    "{\"v_iteration\":1,\"iteration\":1,\"loss\":0.5,\"t_iter\":0.1}\n",
    "POST /v1/jobs\n\n{\"hold\":true,\"spec\":{\"version\":1,\"kind\":"
    "\"command\",\"name\":\"second\",\"command\":[\"true\"]}}",
    "POST /v1/jobs\n\n{\"hold\":true,\"spec\":{\"version\":1,\"kind\":"
    "\"command\",\"name\":\"swept\",\"command\":[\"true\"],\"sweep\":{\"grid\":"
    "{\"labels.a\":[\"1\",\"2\"]}}}}",
    "POST /v1/jobs/2/cancel\n\n",
};

/* ---- the daemon ------------------------------------------------------------
 */
static void fail(const char *what, const struct error *err)
{
    (void)fprintf(stderr, "%s: %s\n", what, err ? err->msg : buf_str(&said));
    abort();
}

static struct event_base *base(void)
{
    return loop_base(rig.ctld->loop);
}

static void go_down(void)
{
    if (!rig.ctld)
        return;
    ctld_destroy(rig.ctld);
    rig.ctld = NULL;
    rig.store->ops->destroy(rig.store);
    rig.files->ops->destroy(rig.files);
    rig.alloc.base.ops->destroy(&rig.alloc.base);
    rig_clear(&rig);
}

static void set_conf(void)
{
    rig.conf = (struct ctld_conf){.cluster = "fuzz",
                                  .state_dir = rig.dir,
                                  .makes_dirs = true,
                                  .socket = rig.socket,
                                  .worker = "/bin/true",
                                  .allocator = "puppet",
                                  .uid = (int64_t)getuid(),
                                  .heartbeat_s = 10,
                                  .node_lost_s = 90,
                                  .reconcile_s = 5,
                                  .kill_grace_s = 1,
                                  .interval_s = 1,
                                  .max_jobs_per_user = 4000,
                                  .max_clients = 64,
                                  .max_clients_per_uid = 64,
                                  .max_spec_bytes = 65536,
                                  .max_log_bytes = 1 << 30};
}

static void start(void)
{
    struct error err = ERROR_INIT;
    (void)signal(SIGPIPE, SIG_IGN); /* as the daemon does */
    rig_init(&rig);
    set_conf();
    rig.alloc.base.ops = &puppet_ops;
    rig.alloc.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (store_sqlite_open(rig.dir, &rig.store, &err) < 0 ||
        files_direct_create(&rig.files, &err) < 0)
        fail("a store", &err);
    struct ctld_parts parts = {.clock = &clock_real,
                               .policy = policy_find("fifo"),
                               .alloc = &rig.alloc.base,
                               .store = rig.store,
                               .files = rig.files,
                               .conf = &rig.conf};
    if (ctld_create(&parts, &rig.ctld, &err) < 0)
        fail("the daemon", &err);
}

/* ---- a request -------------------------------------------------------------
 */
/* What HTTP itself makes of these is http.c's. */
static bool is_of_http(const char *line, size_t n)
{
    static const char *const names[] = {"content-length", "transfer-encoding",
                                        "connection", "expect", "upgrade"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (n >= strlen(names[i]) &&
            strncasecmp(line, names[i], strlen(names[i])) == 0)
            return true;
    return n == 0 || strchr(" \t", line[0]) || !memchr(line, ':', n);
}

static void add_header(struct buf *out, const char *line, size_t n)
{
    const char *token = memmem(line, n, "$T", 2);
    size_t before = token ? (size_t)(token - line) : n;
    (void)buf_add(out, line, before, NULL);
    if (token) {
        (void)buf_addstr(out, rig.alloc.token, NULL);
        (void)buf_add(out, token + 2, n - before - 2, NULL);
    }
    (void)buf_addstr(out, "\r\n", NULL);
}

/* False: the text is no request. */
static bool compose(const char *text, size_t len, struct buf *out)
{
    const char *end = text + len, *line = memchr(text, '\n', len);
    size_t n = line ? (size_t)(line - text) : len;
    if (n < 5 || (memcmp(text, "GET ", 4) && memcmp(text, "POST ", 5)))
        return false;
    (void)buf_add(out, text, n, NULL);
    (void)buf_addstr(out, " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n",
                     NULL);
    text = line ? line + 1 : end;
    while (text < end && *text != '\n') {
        line = memchr(text, '\n', (size_t)(end - text));
        n = (size_t)((line ? line : end) - text);
        if (!is_of_http(text, n))
            add_header(out, text, n);
        text = line ? line + 1 : end;
    }
    text += text < end; /* the empty line */
    (void)buf_addf(out, NULL, "Content-Length: %zu\r\n\r\n",
                   (size_t)(end - text));
    (void)buf_add(out, text, (size_t)(end - text), NULL);
    return true;
}

/* What has come of the answer; true: that is all. */
static bool hear(int fd)
{
    char got[16384];
    for (;;) {
        ssize_t n = recv(fd, got, sizeof(got), MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            return true;
        if (n < 0)
            return false;
        if (said.len < ANSWER_MAX)
            (void)buf_add(&said, got, (size_t)n, NULL);
    }
}

static bool is_stream(void)
{
    return strstr(buf_str(&said), "\r\nTransfer-Encoding: chunked") != NULL;
}

static void check_json(const char *text, size_t len)
{
    json_error_t why;
    json_t *o = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!o)
        fail("an answer that is no JSON", NULL);
    json_decref(o);
}

/* Of a stream the head alone. */
static void check(void)
{
    const char *all = buf_str(&said), *body = strstr(all, "\r\n\r\n");
    if (said.len == 0)
        return; /* what was no HTTP after all */
    if (strncmp(all, "HTTP/1.1 ", 9) != 0 || !body)
        fail("no answer", NULL);
    body += 4;
    bool is_error =
        strncmp(all + 9, "500", 3) == 0 || strncmp(all + 9, "503", 3) == 0;
    /* There is no file of a configuration behind this one. */
    if (is_error && !strstr(body, "\"code\":\"CONFIG\""))
        fail("it says that it cannot", NULL);
    const char *type = strstr(all, "\r\nContent-Type: application/json\r\n");
    if (!is_stream() && type && type < body)
        check_json(body, said.len - (size_t)(body - all));
}

static void ask(const char *text, size_t len)
{
    struct buf out = BUF_INIT;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    buf_reset(&said);
    if (!compose(text, len, &out)) {
        buf_clear(&out);
        return;
    }
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", rig.socket);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), room = 1 << 22;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0)
        abort();
    size_t sent = 0;
    double until_s = clock_real.now_s(&clock_real) + DEADLINE_S;
    for (int turns = 0; turns < STREAM_TURNS;) {
        ssize_t n = sent < out.len ? send(fd, out.data + sent, out.len - sent,
                                          MSG_NOSIGNAL | MSG_DONTWAIT)
                                   : 0;
        sent += n > 0 ? (size_t)n : 0;
        (void)event_base_loop(base(), EVLOOP_NONBLOCK);
        if (hear(fd))
            break;
        turns += is_stream();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        (void)poll(&p, 1, 1);
        if (clock_real.now_s(&clock_real) > until_s)
            fail("neither answered nor hung up", NULL);
    }
    (void)close(fd);
    buf_clear(&out);
    (void)event_base_loop(base(), EVLOOP_NONBLOCK);
    check();
}

/* The attempt's token is there when it was asked for, soon after its submit
 * was answered. */
static void wait_for_token(void)
{
    double until_s = clock_real.now_s(&clock_real) + DEADLINE_S;
    while (!rig.alloc.token[0]) {
        (void)event_base_loop(base(), EVLOOP_NONBLOCK);
        (void)poll(NULL, 0, 1);
        if (clock_real.now_s(&clock_real) > until_s)
            fail("the first job does not start", NULL);
    }
}

static void begin(void)
{
    start();
    for (size_t i = 0; i < sizeof(world) / sizeof(world[0]); i++) {
        ask(world[i], strlen(world[i]));
        const char *all = buf_str(&said);
        if (strncmp(all, "HTTP/1.1 20", 11) != 0)
            fail(world[i], NULL);
        wait_for_token();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool is_first = true;
    const char *at = (const char *)data, *end = at + size;
    bool is_changed = false;
    if (is_first) {
        is_first = false;
        log_set_level(LOG_ERR);
        (void)atexit(go_down);
    }
    if (!rig.ctld)
        begin();
    for (int i = 0; i < REQUESTS_MAX && at < end; i++) {
        const char *cut = memmem(at, (size_t)(end - at), "\n%%\n", 4);
        size_t n = (size_t)((cut ? cut : end) - at);
        is_changed = is_changed || (n > 0 && at[0] == 'P');
        ask(at, n);
        at = cut ? cut + 4 : end;
    }
    if (is_changed)
        go_down();
    return 0;
}
