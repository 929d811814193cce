/* guard.c - which requests mgpu-web answers (S19), and which paths it passes
 * on. */
#include <stdio.h>
#include <string.h>

#include "scheduler/web/web_files.h"
#include "scheduler/web/web_guard.h"
#include "scheduler/web/web_path.h"
#include "tests/tap.h"

static const struct {
    const char *host, *origin, *site, *mark;
    bool is_post, is_fine;
} requests[] = {
    {"127.0.0.1:81", NULL, NULL, NULL, false, true},
    {"LocalHost:81", NULL, "none", NULL, false, true},
    {"[::1]:81", "http://[::1]:81", "same-origin", NULL, false, true},
    {"127.0.0.1:81", "http://127.0.0.1:81", NULL, "1", true, true},
    /* another name or port (DNS rebinding) */
    {NULL, NULL, NULL, NULL, false, false},
    {"", NULL, NULL, NULL, false, false},
    {"127.0.0.1", NULL, NULL, NULL, false, false},
    {"127.0.0.1:80", NULL, NULL, NULL, false, false},
    {"127.0.0.1:081x", NULL, NULL, NULL, false, false},
    {"127.0.0.1:+81", NULL, NULL, NULL, false, false},
    {"127.0.0.1:65617", NULL, NULL, NULL, false, false},
    {"127.0.0.1:81:81", NULL, NULL, NULL, false, false},
    {"[::1:81", NULL, NULL, NULL, false, false},
    {"[::1]x:81", NULL, NULL, NULL, false, false},
    {"evil.example:81", NULL, NULL, NULL, false, false},
    {"10.0.0.1:81", NULL, NULL, NULL, false, false},
    {"127.0.0.1.evil.example:81", NULL, NULL, NULL, false, false},
    /* another origin or site */
    {"127.0.0.1:81", "http://127.0.0.1:82", NULL, NULL, false, false},
    {"127.0.0.1:81", "http://localhost:81", NULL, "1", true, false},
    {"127.0.0.1:81", "https://127.0.0.1:81", NULL, "1", true, false},
    {"127.0.0.1:81", "null", NULL, "1", true, false},
    {"127.0.0.1:81", "", NULL, "1", true, false},
    {"127.0.0.1:81", "http://127.0.0.1:81", "same-site", "1", true, false},
    {"127.0.0.1:81", NULL, "cross-site", NULL, false, false},
    /* what a form can send */
    {"127.0.0.1:81", NULL, NULL, "1", true, false},
    {"127.0.0.1:81", "http://127.0.0.1:81", NULL, NULL, true, false},
    {"127.0.0.1:81", "http://127.0.0.1:81", NULL, "", true, false},
};

static void test_requests(void)
{
    struct web_guard g;
    struct error err = ERROR_INIT;
    ok(web_guard_init(&g, 81, false, "127.0.0.1", &err) == 0, "a guard");
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const struct web_seen s = {
            .method = requests[i].is_post ? "POST" : "GET",
            .host = requests[i].host,
            .origin = requests[i].origin,
            .site = requests[i].site,
            .mark = requests[i].mark,
        };
        ok((web_guard_origin(&g, &s, &err) == 0) == requests[i].is_fine,
           "S19: request %zu: %s %s", i, s.host ? s.host : "-",
           s.origin ? s.origin : "-");
    }
    /* Behind a socket the port is ssh's. Read-only, addresses are fine. */
    struct web_seen s = {.method = "GET", .host = "localhost:9999"};
    ok(web_guard_init(&g, 0, false, NULL, &err) == 0 &&
           web_guard_origin(&g, &s, &err) == 0,
       "any port");
    ok(web_guard_init(&g, 81, true, "node7", &err) == 0, "a public guard");
    static const char *const fine[] = {"node7:81", "192.0.2.1:81",
                                       "[2001:db8::1]:81", "127.0.0.1:81"};
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        s.host = fine[i];
        ok(web_guard_origin(&g, &s, &err) == 0, "%s", s.host);
    }
    static const char *const bad[] = {"node7:82", "node8:81", "192.0.2.1.:81",
                                      "[node7]:81"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        s.host = bad[i];
        ok(web_guard_origin(&g, &s, &err) < 0, "not %s", s.host);
    }
}

static void test_secrets(void)
{
    struct web_guard g;
    struct error err = ERROR_INIT;
    char cookie[WEB_COOKIE_CAP], text[600];
    struct web_seen s = {.method = "GET", .host = "127.0.0.1:81"};
    ok(web_guard_init(&g, 81, false, NULL, &err) == 0, "a guard");
    is_int((int)strlen(g.token), 64, "32 bytes");
    ok(strcmp(g.token, g.session) != 0, "the cookie is not the token");
    ok(web_guard_is_token(&g, g.token), "the token");
    ok(!web_guard_is_token(&g, g.session), "the cookie is no token");
    ok(!web_guard_is_token(&g, NULL) && !web_guard_is_token(&g, ""), "none");
    ok(!web_guard_has_session(&g, &s), "no cookie");
    web_guard_cookie(&g, &s, true, cookie);
    (void)snprintf(text, sizeof(text),
                   "mgpu-web-81=%s; Path=/; HttpOnly; "
                   "SameSite=Strict",
                   g.session);
    is_str(cookie, text, "the cookie of this port");

    static const char *const formats[] = {"mgpu-web-81=%s",
                                          "a=b; mgpu-web-81=%s; c=d",
                                          "mgpu-web-81=x; mgpu-web-81=%s"};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const char *at = strstr(formats[i], "%s");
        (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - formats[i]),
                       formats[i], g.session, at + 2);
        s.cookie = text;
        ok(web_guard_has_session(&g, &s), "%s", formats[i]);
    }
    static const char *const others[] = {
        "mgpu-web-80=%s",     "xmgpu-web-81=%s", "mgpu-web-81=%s0",
        "mgpu-web-81=\"%s\"", "mgpu-web-81 =%s", "%s"};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        const char *at = strstr(others[i], "%s");
        (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - others[i]),
                       others[i], g.session, at + 2);
        s.cookie = text;
        ok(!web_guard_has_session(&g, &s), "not %s", others[i]);
    }
    (void)snprintf(text, sizeof(text), "mgpu-web-81=%s", g.session);
    s.cookie = text;
    ok(web_guard_forget(&g, &err) == 0 && !web_guard_has_session(&g, &s),
       "after a logout it is worthless");
    ok(web_guard_is_token(&g, g.token), "the token is not");
}

static void test_paths(void)
{
    static const char *const good[] = {
        "/v1/jobs", "/v1/jobs?state=RUNNING&name=a%2Fb..%2e",
        "/v1/jobs/1_2/why", "/v1/jobs/a%20b", "/v1/jobs/..."};
    static const char *const bad[] = {"",
                                      "/",
                                      "/v1",
                                      "/v1/",
                                      "/metrics",
                                      "/v2/jobs",
                                      "//v1/jobs",
                                      "/v1//jobs",
                                      "/v1/jobs/",
                                      "/v1/..",
                                      "/v1/../metrics",
                                      "/v1/./jobs",
                                      "/v1/jobs/..",
                                      "/v1/%2e%2e/x",
                                      "/v1/%2E./x",
                                      "/v1/a%2fb",
                                      "/v1/a%5Cb",
                                      "/v1/a%00",
                                      "/v1/a%0a",
                                      "/v1/a%7f",
                                      "/v1/a%2",
                                      "/v1/a%",
                                      "/v1/a%zz",
                                      "/v1/a%252e",
                                      "/v1/a b",
                                      "/v1/a\\b",
                                      "/v1/a#b",
                                      "/v1/a?x\n",
                                      "/v1/\xc3\xa4",
                                      "http://h/v1/jobs"};
    static const char *const hidden[] = {
        "/v1/status",       "/v1/jobs/1", "/v1/jobs/1/logs", "/v1/watchers",
        "/v1/jobs/?x=/v1/", "/v1/admin",  "/v1/policy",      "/v1/usage",
        "/v1/job",          "/v1/",       "?/v1/jobs"};
    struct error err;
    ok(web_path_check_shown("/v1/jobs?state=RUNNING", &err) == 0 &&
           web_path_check_shown("/v1/watch", &err) == 0 &&
           web_path_check_shown("/v1/nodes?", &err) == 0 &&
           web_path_check_shown("/v1/gpus?since=1", &err) == 0,
       "what the page of a cluster shows");
    for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]); i++)
        ok(web_path_check_shown(hidden[i], &err) < 0, "S20: not %s", hidden[i]);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        ok(web_path_check(good[i], &err) == 0, "%s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(web_path_check(bad[i], &err) < 0, "S19: path %zu is refused", i);
}

/* The page of a cluster. */
static void test_shared(void)
{
    static const char *const hosts[] = {"gpu.example.org"};
    char token[RNG_TOKEN_CAP], cookie[WEB_COOKIE_CAP], before[WEB_COOKIE_CAP];
    struct web_guard g, h;
    struct error err = ERROR_INIT;
    struct web_seen s = {.method = "GET", .host = "GPU.example.org:8443"};
    if (!ok(rng_token(token, &err) == 0 &&
                web_guard_init(&g, 81, false, NULL, &err) == 0 &&
                web_guard_share(&g, token, hosts, 1, &err) == 0,
            "a shared guard"))
        return;
    ok(web_guard_origin(&g, &s, &err) == 0, "another name, any port");
    s.origin = "https://gpu.example.org:8443";
    ok(web_guard_origin(&g, &s, &err) == 0, "behind TLS");
    s.origin = "ftp://gpu.example.org:8443";
    ok(web_guard_origin(&g, &s, &err) < 0, "S20: no other scheme");
    s.origin = NULL;
    s.host = "x.gpu.example.org";
    ok(web_guard_origin(&g, &s, &err) < 0, "S20: no name below it");
    s.host = "127.0.0.1:81";
    ok(!web_guard_has_session(&g, &s), "S20: no cookie");
    ok(web_guard_is_token(&g, token) && !web_guard_is_token(&g, ""), "a token");
    web_guard_cookie(&g, &s, true, before);
    ok(!strstr(before, token), "S20: the cookie does not have it");
    before[strcspn(before, ";")] = '\0';
    s.cookie = before;
    ok(web_guard_has_session(&g, &s), "the cookie");
    ok(web_guard_init(&h, 81, false, NULL, &err) == 0 &&
           web_guard_share(&h, token, NULL, 0, &err) == 0 &&
           web_guard_has_session(&h, &s),
       "outlives a restart");
    token[0] = token[0] == 'a' ? 'b' : 'a';
    ok(web_guard_share(&g, token, NULL, 0, &err) == 0 &&
           !web_guard_has_session(&g, &s),
       "S20: and no change of the token");
    web_guard_cookie(&g, &s, true, cookie);
    ok(strncmp(cookie, before, strlen(before)) != 0, "which gives another one");
    ok(web_guard_share(&g, NULL, NULL, 0, &err) == 0, "without a token");
    s.cookie = NULL;
    ok(web_guard_has_session(&g, &s) && !web_guard_is_token(&g, ""),
       "no cookie is asked for");
}

static void test_files(void)
{
    char one[WEB_ETAG_CAP] = "", two[WEB_ETAG_CAP] = "";
    struct error err = ERROR_INIT;
    const struct web_file *html = web_files_find("index.html", NULL);
    static const char ab[] = "ab";
    const struct web_file a = {"a.js", ab, ab + 2};
    ok(html != NULL, "the page has a file");
    if (!html)
        return;
    ok(!web_files_find("", NULL) &&
           !web_files_find("../page/index.html", NULL) &&
           !web_files_find("index.htm", NULL) &&
           !web_files_find("..", "index.html") &&
           !web_files_find("page", "index.html"),
       "and no other name");
    ok(web_files_find("compare", "axes.js") != NULL, "a file of a folder");
    ok(!web_files_find("compare/axes.js", NULL) &&
           !web_files_find("compare", NULL) && !web_files_find("compare", "") &&
           !web_files_find("comp", "axes.js"),
       "and no other name of it");
    is_str(web_files_type(html), "text/html; charset=utf-8", "its type");
    is_str(web_files_type(&a), "text/javascript; charset=utf-8", "a module");
    ok(html->end > html->data && memchr(html->data, '<', 64), "its content");
    ok(web_files_etag(html, one, &err) == 0 &&
           web_files_etag(&a, two, &err) == 0,
       "digests");
    is_int((int)strlen(one), 34, "in quotes");
    ok(strcmp(one, two) != 0, "that differ");
}

int main(void)
{
    test_requests();
    test_secrets();
    test_paths();
    test_shared();
    test_files();
    return tap_done();
}
