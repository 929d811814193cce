/* notify_target.c - which addresses are taken, and which hosts a list allows.
 */
#include "jobs/spec/notify_target.h"

#include <stdio.h>
#include <string.h>

#include "tests/tap.h"

static void test_mail(void)
{
    static const char *const good[] = {"alice", "a.b+c=d-e_f@x.example.org",
                                       "1@a-b.c", "a@localhost"};
    static const char *const bad[] = {
        "",      "@b.org", "a@",      "a@b@c", "-a",       ".a",     "a.",
        "a..b",  "a b",    "a\nb",    "a,b",   "|sh",      "/tmp/x", "+x",
        "a@-b",  "a@b-",   "a@b..c",  "a@.b",  "a@b.",     "a!b",    "a%b@c",
        "a@[1]", "~root",  "<a@b.c>", "a@b;c", "a@b.org\r"};
    struct error err;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        is_int(hook_mail(good[i], &err), 0, good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        ok(hook_mail(bad[i], &err) < 0 && err.code == ERR_INVAL, "not '%s'",
           bad[i]);
}

static void test_url(void)
{
    static const struct {
        const char *url, *host; /* NULL: refused */
        int port;
    } cases[] = {
        {"http://a.org", "a.org", 80},
        {"https://Hooks.Example.org/T0/B1?x=1&y=%20", "hooks.example.org", 443},
        {"http://a.org:8080/x", "a.org", 8080},
        {"http://a.org?x", "a.org", 80},
        {"http://10.0.0.5:1/", "10.0.0.5", 1},
        {"http://[::1]:65535/", "[::1]", 65535},
        {"http://[2001:DB8::1]", "[2001:db8::1]", 80},
        {"ftp://a.org/", NULL, 0},
        {"HTTP://a.org/", NULL, 0},
        {"a.org", NULL, 0},
        {"http://", NULL, 0},
        {"http:///x", NULL, 0},
        {"http://:80/", NULL, 0},
        {"http://a.org:/", NULL, 0},
        {"http://a.org:0/", NULL, 0},
        {"http://a.org:080/", NULL, 0},
        {"http://a.org:65536/", NULL, 0},
        {"http://a.org:80x/", NULL, 0},
        {"http://u:p@a.org/", NULL, 0},
        {"http://a.org\\@b.org/", NULL, 0},
        {"http://a.org#@b.org/", NULL, 0},
        {"http://a.org /", NULL, 0},
        {"http://a.org/\r\nX: y", NULL, 0},
        {"http://a.org/\xc3\xa4", NULL, 0},
        {"http://a.org./", NULL, 0},
        {"http://a..org/", NULL, 0},
        {"http://%61.org/", NULL, 0},
        {"http://a_b.org/", NULL, 0},
        {"http://2130706433/", NULL, 0},
        {"http://127.1/", NULL, 0},
        {"http://0x7f.0.0.0x1/", NULL, 0},
        {"http://0177.0.0.01/", NULL, 0},
        {"http://[::1/", NULL, 0},
        {"http://[fe80::1%25eth0]/", NULL, 0},
        {"http://[::1]x/", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct hook h = {.port = -1};
        struct error err = ERROR_INIT;
        int rc = hook_url(cases[i].url, &h, &err);
        if (!cases[i].host) {
            ok(rc < 0 && err.code == ERR_INVAL, "not '%s'", cases[i].url);
            continue;
        }
        is_int(rc, 0, cases[i].url);
        is_str(h.host, cases[i].host, "host");
        is_int(h.port, cases[i].port, "port");
    }
}

static void test_long(void)
{
    char url[HOOK_URL_CAP + 20], host[300], mail[300];
    struct hook h;
    struct error err;
    memset(url, 'x', sizeof(url));
    memcpy(url, "http://a.org/", 13);
    url[HOOK_URL_CAP - 1] = '\0';
    is_int(hook_url(url, &h, &err), 0, "as long as may be");
    url[HOOK_URL_CAP - 1] = 'x';
    url[HOOK_URL_CAP] = '\0';
    ok(hook_url(url, &h, &err) < 0, "one more");
    memset(host, 'a', sizeof(host));
    host[299] = '\0';
    (void)snprintf(url, sizeof(url), "http://%s/", host);
    ok(hook_url(url, &h, &err) < 0, "a long host");
    memset(mail, 'a', sizeof(mail));
    memcpy(mail, "a@", 2);
    mail[299] = '\0';
    ok(hook_mail(mail, &err) < 0, "a long address");
}

int main(void)
{
    test_mail();
    test_url();
    test_long();
    return tap_done();
}
