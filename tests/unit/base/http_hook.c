/* http_hook.c - F42: whoever is called, it ends, and little is read.
 *
 * As a program for other tests: `http_hook serve HOW FILE` prints its port,
 * appends the bodies that it is sent to FILE, and reads how it is to go on
 * from standard input, until that ends; it prints what it obeys. */
#include "jobs/http/http_webhook.h"

#include <math.h>
#include <signal.h>
#include <stdbool.h>

#include "tests/tap.h"
#include "tests/unit/base/hook_host.h"

/* ---- one call -------------------------------------------------------------
 */
struct outcome {
    int n; /* ends */
    struct http_hook_end last;
};

static void on_end(void *arg, const struct http_hook_end *end)
{
    struct outcome *o = arg;
    o->n++;
    o->last = *end;
}

static void post(struct http_hooks *h, const char *host, int port,
                 bool is_literal, double limit_s)
{
    static const char body[] = "{\"on\":\"end\"}";
    char url[100];
    struct error err = ERROR_INIT;
    (void)snprintf(url, sizeof(url), "http://%s:%d/there?q=1", host, port);
    if (http_hooks_post(h, url, is_literal, NULL, body, sizeof(body) - 1,
                        limit_s, url, &err) < 0)
        tap_diag("%s", err.msg);
}

static struct outcome wait_for(struct http_hooks *h, int n)
{
    struct outcome o = {.n = 0};
    while (o.n < n)
        http_hooks_wait(h, 60, on_end, &o);
    return o;
}

static struct http_hooks *hooks(void)
{
    struct http_hooks *h = NULL;
    struct error err = ERROR_INIT;
    if (!ok(http_hooks_create(&h, &err) == 0, "create"))
        exit(1);
    return h;
}

enum { SENT = 1, AGAIN = 2 };

static void test_answers(void)
{
    static const struct {
        enum hook_how how;
        double limit_s;
        int want;
        const char *why;
    } cases[] = {
        {HOOK_OK, 60, SENT, ""},
        {HOOK_FAILS, 60, AGAIN, "HTTP status 500"},
        {HOOK_ABSENT, 60, 0, "HTTP status 404"},
        {HOOK_MOVED, 60, 0, "redirects are not followed"},
        {HOOK_HANGS, 0.2, AGAIN, "imeout"},
        {HOOK_HUGE, 60, SENT, ""},
        {HOOK_HUGE_500, 60, AGAIN, "HTTP status 500"},
        {HOOK_HEADS, 60, 0, "its headers do not end"},
    };
    struct http_hooks *h = hooks();
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hook_host host;
        const char *name = hook_hows[cases[i].how];
        hook_start(&host, cases[i].how, NULL);
        post(h, "127.0.0.1", host.port, true, cases[i].limit_s);
        struct outcome o = wait_for(h, 1);
        int got =
            (o.last.is_sent ? SENT : 0) + (o.last.is_worth_another ? AGAIN : 0);
        is_int(got, cases[i].want, name);
        ok(strstr(o.last.why, cases[i].why), "%s: %s", name, o.last.why);
        hook_stop(&host);
        ok(host.n_requests <= 1, "asked once");
        ok(host.n_sent < 64 << 20, "%s: %lld bytes could be sent", name,
           (long long)host.n_sent);
    }
    http_hooks_destroy(h);
}

static void test_request(void)
{
    struct http_hooks *h = hooks();
    struct hook_host host;
    hook_start(&host, HOOK_OK, NULL);
    post(h, "127.0.0.1", host.port, true, 60);
    (void)wait_for(h, 1);
    ok(hook_heard(&host, "POST /there?q=1 HTTP/1.1\r\n"), "method and path");
    ok(hook_heard(&host, "\r\nContent-Type: application/json\r\n"), "type");
    ok(hook_heard(&host, "\r\n\r\n{\"on\":\"end\"}"), "body");
    ok(!hook_heard(&host, "Expect:"), "nothing is asked before");
    hook_stop(&host);
    http_hooks_destroy(h);
}

/* ---- where it goes --------------------------------------------------------
 */
static void test_places(void)
{
    struct http_hooks *h = hooks();
    struct hook_host host;
    char proxy[64];
    hook_start(&host, HOOK_OK, NULL);

    post(h, "localhost", host.port, false, 60);
    struct outcome o = wait_for(h, 1);
    ok(!o.last.is_sent && strstr(o.last.why, "stands for this machine"),
       "a name for this machine: %s", o.last.why);
    is_int(host.n_requests, 0, "nobody was asked");
    post(h, "localhost", host.port, true, 60);
    ok(wait_for(h, 1).last.is_sent, "one that was written out");

    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", host.port);
    (void)setenv("http_proxy", proxy, 1);
    (void)setenv("all_proxy", proxy, 1);
    int n = host.n_requests;
    post(h, "127.0.0.1", 1, true, 60);
    o = wait_for(h, 1);
    ok(!o.last.is_sent && o.last.is_worth_another, "nobody listens: %s",
       o.last.why);
    is_int(host.n_requests, n, "the proxy of the environment is not asked");
    (void)unsetenv("http_proxy");
    (void)unsetenv("all_proxy");

    struct error err = ERROR_INIT;
    int rc = http_hooks_post(h, "file:///etc/passwd", true, NULL, "", 0, 60,
                             NULL, &err);
    ok(rc < 0 || !wait_for(h, 1).last.is_sent, "no file is read");
    hook_stop(&host);
    http_hooks_destroy(h);
}

/* ---- many -----------------------------------------------------------------
 */
static void test_many(void)
{
    struct http_hooks *h = hooks();
    struct hook_host fine, hung;
    hook_start(&fine, HOOK_OK, NULL);
    hook_start(&hung, HOOK_HANGS, NULL);
    for (int i = 0; i < 20; i++) {
        post(h, "127.0.0.1", hung.port, true, 3600);
        post(h, "127.0.0.1", fine.port, true, 60);
    }
    ok(wait_for(h, 20).last.is_sent, "20 beside 20 that hang");
    is_int(fine.n_requests, 20, "each once");
    http_hooks_destroy(h); /* does not wait for the others */
    hook_stop(&fine);
    hook_stop(&hung);
}

static void *wake(void *arg)
{
    http_hooks_wake(arg);
    return NULL;
}

static void test_wake(void)
{
    struct http_hooks *h = hooks();
    struct outcome o = {.n = 0};
    pthread_t t;
    http_hooks_wake(h);
    http_hooks_wait(h, 3600, on_end, &o);
    ok(o.n == 0, "woken before it waits");
    (void)pthread_create(&t, NULL, wake, h);
    http_hooks_wait(h, 3600, on_end, &o);
    (void)pthread_join(t, NULL);
    ok(o.n == 0, "woken by another thread");
    http_hooks_destroy(h);
}

/* ---- for other tests ------------------------------------------------------
 */
static int how_of(const char *word)
{
    int how = 0;
    while (how < HOOK_N && strcmp(hook_hows[how], word) != 0)
        how++;
    return how;
}

static int serve(const char *word, const char *file)
{
    struct hook_host host;
    char line[32];
    if (how_of(word) == HOOK_N)
        return 64;
    hook_start(&host, (enum hook_how)how_of(word), file);
    (void)printf("%d\n", host.port);
    (void)fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (how_of(line) < HOOK_N)
            host.how = how_of(line);
        (void)printf("%s\n", line);
        (void)fflush(stdout);
    }
    hook_stop(&host);
    return 0;
}

int main(int argc, char **argv)
{
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc == 4 && strcmp(argv[1], "serve") == 0)
        return serve(argv[2], argv[3]);
    test_answers();
    test_request();
    test_places();
    test_many();
    test_wake();
    return tap_done();
}
