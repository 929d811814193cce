/* conf_web.c - the keys of the page of the cluster: which addresses need a
 * token, and what each mistake is. */
#include "jobs/conf/conf_web.h"

#include <string.h>

#include "tests/tap.h"
#include "tests/unit/jobs/findings.h"

#define V "version: 1\n"

static const struct {
    const char *name, *text, *want; /* findings: "CODE line:column" */
} rows[] = {
    {"a page for this machine", V "controller: {web_listen: '127.1.2.3:8'}\n",
     ""},
    {"a page on IPv6", V "controller: {web_listen: '[::1]:8'}\n", ""},
    {"a page for localhost", V "controller: {web_listen: 'localhost:8'}\n", ""},
    {"a page on a socket", V "controller: {web_listen: 'unix:/run/w'}\n", ""},
    {"a page on a relative path", V "controller: {web_listen: 'unix:w'}\n",
     "E014 2:26"},
    {"a page without a port", V "controller: {web_listen: a}\n", "E014 2:26"},
    {"a page for all without a token", V "controller: {web_listen: '*:8'}\n",
     "E017 2:26"},
    {"a page for others without a token",
     V "controller: {web_listen: '192.0.2.1:8'}\n", "E017 2:26"},
    {"a name that looks like loopback",
     V "controller: {web_listen: '127.0.0.1.example.org:8'}\n", "E017 2:26"},
    {"a page for all with one",
     V "controller: {web_listen: '*:8', web_token_file: /t}\n", ""},
    {"hosts of the page", V "controller: {web_hosts: [a.org, b-1]}\n", ""},
    {"a host with a port", V "controller: {web_hosts: [a, 'a.org:80']}\n",
     "E014 2:29"},
    {"every host", V "controller: {web_hosts: ['*']}\n", "E014 2:26"},
    {"a group of a port",
     V "controller: {web_listen: 'localhost:8', web_group: g}\n", "E017 2:52"},
    {"a group of a socket",
     V "controller: {web_listen: 'unix:/run/w', web_group: g}\n", ""},
};

static void test_findings(void)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct conf c;
        struct spec_report r;
        struct error err = ERROR_INIT;
        char got[256];
        int rc =
            conf_parse(rows[i].text, strlen(rows[i].text), NULL, &c, &r, &err);
        is_str(findings_text(&r, got, sizeof(got)), rows[i].want, rows[i].name);
        is_int(rc, rows[i].want[0] ? -1 : 0, "S20: and is refused then");
        if (rc == 0)
            conf_clear(&c);
        diagnostics_clear(&r);
    }
}

static void test_values(void)
{
    static const char text[] =
        V "controller: {web_listen: '*:8765', web_token_file: token,\n"
          " web_hosts: [a.example.org, b]}\n";
    struct conf c;
    struct spec_report r;
    struct error err = ERROR_INIT;
    if (!ok(conf_parse(text, strlen(text), "/etc/mgpu/mgpu.yaml", &c, &r,
                       &err) == 0,
            "all of them: %s", err.msg))
        return;
    is_str(c.controller.web_listen, "*:8765", "web_listen");
    is_str(c.controller.web_token_file, "/etc/mgpu/token",
           "relative to the file");
    is_int((long long)c.controller.web_hosts.n, 2, "hosts");
    ok(!c.controller.web_group, "no group");
    conf_clear(&c);
    diagnostics_clear(&r);
}

static void test_loopback(void)
{
    static const char *const is[] = {"127.0.0.1", "127.255.0.9", "localhost",
                                     "[::1]"};
    static const char *const is_not[] = {
        "", "*", "0.0.0.0", "128.0.0.1", "[::]", "::1", "127.1", "localhost.x"};
    for (size_t i = 0; i < sizeof(is) / sizeof(is[0]); i++)
        ok(conf_web_is_loopback(is[i]), "%s is loopback", is[i]);
    for (size_t i = 0; i < sizeof(is_not) / sizeof(is_not[0]); i++)
        ok(!conf_web_is_loopback(is_not[i]), "S20: '%s' is not", is_not[i]);
}

int main(void)
{
    test_findings();
    test_values();
    test_loopback();
    return tap_done();
}
