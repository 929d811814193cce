/* conf_web.c - what the keys of the page of the cluster must be together, see
 * conf_web.h. */
#include "jobs/conf/conf_web.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "jobs/conf/conf_table.h"

enum { SOCKET_MAX = 107, HOST_MAX = 255 }; /* sun_path, a name of DNS */
static const char unix_scheme[] = "unix:";

bool conf_web_is_loopback(const char *host)
{
    struct in_addr a;
    return strcmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
           (inet_pton(AF_INET, host, &a) == 1 && ntohl(a.s_addr) >> 24 == 127);
}

static const char *socket_of(const char *listen)
{
    size_t n = sizeof(unix_scheme) - 1;
    return strncmp(listen, unix_scheme, n) == 0 ? listen + n : NULL;
}

/* Of "HOST:PORT". */
static bool is_loopback(const char *listen)
{
    char host[HOST_MAX + 1];
    size_t n = (size_t)(strrchr(listen, ':') - listen);
    if (n > HOST_MAX)
        return false;
    (void)snprintf(host, sizeof(host), "%.*s", (int)n, listen);
    return conf_web_is_loopback(host);
}

static void check_listen(const struct conf *c, const struct schema_from *from,
                         struct spec_report *report)
{
    static const char path[] = "controller.web_listen";
    const struct schema_from *f = conf_check_from(from, path);
    const char *at = c->controller.web_listen;
    if (!f->node || f->bad || !at)
        return;
    const char *socket = socket_of(at);
    if (socket ? socket[0] != '/' || strlen(socket) > SOCKET_MAX
               : !conf_check_is_address(at))
        diagnostics_add(report, "E014", f->node->at, path,
                        "as in 127.0.0.1:8765 or unix:/run/mgpu-web/sock",
                        "'%s' must be HOST:PORT, or unix: and an absolute path "
                        "of at most %d bytes",
                        path, SOCKET_MAX);
    else if (!socket && !is_loopback(at) && !c->controller.web_token_file &&
             !conf_check_from(from, "controller.web_token_file")->bad)
        diagnostics_add(
            report, "E017", f->node->at, path,
            "controller: {web_token_file: /etc/mgpu/web-token}",
            "'%s' needs controller.web_token_file: other machines reach this "
            "address, and without a token everybody there sees the page",
            path);
}

/* The name in Host, without its port. */
static bool is_host(const char *s)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-";
    size_t n = strlen(s);
    return n > 0 && n <= HOST_MAX && strspn(s, allowed) == n;
}

static void check_hosts(const struct schema_from *from,
                        struct spec_report *report)
{
    static const char path[] = "controller.web_hosts";
    const struct schema_from *f = conf_check_from(from, path);
    for (const struct node *n = f->node && !f->bad ? f->node->first : NULL; n;
         n = n->next)
        if (!n->text || !is_host(n->text))
            diagnostics_add(report, "E014", n->at, path,
                            "as in [mgpu.example.org]",
                            "each of '%s' must be the name of a host, without "
                            "a scheme, a port or a wildcard",
                            path);
}

static void check_group(const struct conf *c, const struct schema_from *from,
                        struct spec_report *report)
{
    static const char path[] = "controller.web_group";
    const struct schema_from *f = conf_check_from(from, path);
    const char *at = c->controller.web_listen;
    if (f->node && !f->bad && c->controller.web_group &&
        !conf_check_from(from, "controller.web_listen")->bad &&
        (!at || !socket_of(at)))
        diagnostics_add(report, "E017", f->node->at, path,
                        "controller: {web_listen: \"unix:/run/mgpu-web/sock\"}",
                        "'%s' needs a unix socket in controller.web_listen: a "
                        "port has no group",
                        path);
}

void conf_web_check(const struct conf *c, const struct schema_from *from,
                    struct spec_report *report)
{
    check_listen(c, from, report);
    check_hosts(from, report);
    check_group(c, from, report);
}
