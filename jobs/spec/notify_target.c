/* notify_target.c - see notify_target.h. */
#include "jobs/spec/notify_target.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_HTTP = 80, PORT_HTTPS = 443 };

static const char alnum[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                            "abcdefghijklmnopqrstuvwxyz0123456789";

static bool is_alnum(char c)
{
    return c != '\0' && strchr(alnum, c);
}

/* "a.b-c", of so many characters: no label is empty, or begins or ends with
 * '-'. A dot at the end would be another text for the same host. */
static bool is_name(const char *s, size_t len)
{
    if (len == 0 || len >= HOOK_HOST_CAP - 1)
        return false;
    for (size_t i = 0; i < len; i++) {
        bool is_edge =
            i == 0 || i == len - 1 || s[i - 1] == '.' || s[i + 1] == '.';
        if (!is_alnum(s[i]) && (is_edge || (s[i] != '.' && s[i] != '-')))
            return false;
    }
    return true;
}

int hook_mail(const char *address, struct error *err)
{
    size_t local = strcspn(address, "@");
    bool is_fine = local > 0 && local <= 64 && strlen(address) < HOOK_MAIL_CAP;
    for (size_t i = 0; is_fine && i < local; i++)
        is_fine = is_alnum(address[i]) ||
                  (strchr("._+=-", address[i]) && i > 0 &&
                   is_alnum(address[i - 1]) && is_alnum(address[i + 1]));
    if (is_fine && address[local] == '@')
        is_fine = is_name(address + local + 1, strlen(address + local + 1));
    return is_fine ? 0
                   : error_set(err, ERR_INVAL,
                               "expected an address as alice@example.org, or "
                               "alice: letters, digits and ._+=-");
}

/* ---- hosts ----------------------------------------------------------------
 */

static bool is_address(const char *host)
{
    struct in_addr four;
    return inet_pton(AF_INET, host, &four) == 1;
}

/* What resolvers take for an address although it does not look like one: the
 * last label is a number, as in "2130706433", "127.1" or "127.0.0.0x1". */
static bool is_odd_address(const char *host)
{
    const char *dot = strrchr(host, '.');
    const char *last = dot ? dot + 1 : host;
    bool is_hex = strncmp(last, "0x", 2) == 0;
    const char *digits = is_hex ? "0123456789abcdef" : "0123456789";
    last += is_hex ? 2 : 0;
    return last[strspn(last, digits)] == '\0' && !is_address(host);
}

/* Returns how long the host at s is; 0: there is none. */
static size_t host_len(const char *s, struct hook *h)
{
    struct in6_addr six;
    size_t len = strcspn(s, ":/?");
    if (*s == '[') {
        char text[INET6_ADDRSTRLEN];
        len = strcspn(s, "]");
        if (s[len] != ']' || len > sizeof(text))
            return 0;
        (void)snprintf(text, sizeof(text), "%.*s", (int)(len - 1), s + 1);
        if (inet_pton(AF_INET6, text, &six) != 1)
            return 0;
        len++;
    } else if (!is_name(s, len)) {
        return 0;
    }
    for (size_t i = 0; i < len; i++)
        h->host[i] = (char)tolower((unsigned char)s[i]);
    h->host[len] = '\0';
    if (is_odd_address(h->host) && *s != '[')
        return 0;
    return len;
}

/* "" or ":PORT"; returns how long it is, or -1. */
static int port_len(const char *s, int *io_port)
{
    if (*s != ':')
        return 0;
    size_t n = strspn(s + 1, "0123456789");
    long port = n > 0 && n <= 5 && s[1] != '0' ? strtol(s + 1, NULL, 10) : 0;
    if (port < 1 || port > 65535)
        return -1;
    *io_port = (int)port;
    return (int)n + 1;
}

static bool is_clean(const char *s)
{
    for (; *s; s++)
        if (*s <= ' ' || *s >= 0x7f || strchr("\"<>\\^`{|}#@", *s))
            return false;
    return true;
}

int hook_url(const char *url, struct hook *ret, struct error *err)
{
    static const char *const schemes[] = {"http://", "https://"};
    struct hook h = {.port = 0};
    const char *at = NULL;

    for (int i = 0; i < 2 && !at; i++) {
        h.is_tls = i == 1;
        if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
            at = url + strlen(schemes[i]);
    }
    if (!at)
        return error_set(err, ERR_INVAL,
                         "expected http://HOST or https://HOST");
    if (strlen(url) >= HOOK_URL_CAP)
        return error_set(err, ERR_INVAL, "longer than %d characters",
                         HOOK_URL_CAP - 1);
    if (!is_clean(at))
        return error_set(err, ERR_INVAL,
                         "printable ASCII without blanks, quotes, '#' and "
                         "'@' alone; write %%40 for '@'");
    h.port = h.is_tls ? PORT_HTTPS : PORT_HTTP;
    size_t len = host_len(at, &h);
    int more = len > 0 ? port_len(at + len, &h.port) : -1;
    if (more < 0 || (at[len + (size_t)more] && at[len + (size_t)more] != '/' &&
                     at[len + (size_t)more] != '?'))
        return error_set(err, ERR_INVAL, "there is no host in it");
    *ret = h;
    return 0;
}
