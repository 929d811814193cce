/* web_listen.c - where the page is, see web_listen.h. */
#include "scheduler/web/web_listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "jobs/conf/conf_web.h"
#include "jobs/http/http_server.h"

static const char unix_scheme[] = "unix:";
enum { SCHEME_LEN = sizeof(unix_scheme) - 1 };

static const char *key_of(enum web_listen_of of)
{
    return of == WEB_LISTEN_CLUSTER ? "controller.web_listen" : "--listen";
}

bool web_listen_is_unix(const char *where)
{
    return strncmp(where, unix_scheme, SCHEME_LEN) == 0;
}

/* 0, or -1: where is something else than HOST:PORT. */
static int split(const char *where, char host[WEB_NAME_CAP],
                 const char **ret_port)
{
    const char *colon = strrchr(where, ':');
    if (!colon || colon == where || colon - where >= WEB_NAME_CAP)
        return -1;
    (void)snprintf(host, WEB_NAME_CAP, "%.*s", (int)(colon - where), where);
    *ret_port = colon;
    return 0;
}

bool web_listen_is_local(const char *where)
{
    char host[WEB_NAME_CAP];
    const char *port;
    return web_listen_is_unix(where) ||
           (split(where, host, &port) == 0 && conf_web_is_loopback(host));
}

/* The socket gives its clients this user's rights: nobody else may put another
 * one in its place. Nobody but root can in a directory of root's. */
static int check_directory(const char *path, enum web_listen_of of,
                           struct error *err)
{
    char dir[WEB_NAME_CAP];
    struct stat st;
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    if (len >= sizeof(dir))
        return error_set(err, ERR_USAGE, "%s: the path is too long",
                         key_of(of));
    (void)snprintf(dir, sizeof(dir), "%.*s", (int)len, path);
    if (!slash)
        dir[0] = '.', dir[1] = '\0';
    else if (len == 0)
        dir[0] = '/', dir[1] = '\0';
    if (stat(dir, &st) < 0)
        return error_sys(err, errno, "%s: '%s'", key_of(of), dir);
    bool is_mine =
        st.st_uid == geteuid() || (of == WEB_LISTEN_CLUSTER && st.st_uid == 0);
    if (!is_mine || (st.st_mode & 022) != 0)
        return error_set(err, ERR_USAGE,
                         of == WEB_LISTEN_CLUSTER
                             ? "%s: '%s' must belong to mgpu-web's user, and "
                               "be writable by nobody else"
                             : "%s: '%s' must be your own directory, and "
                               "writable by nobody else",
                         key_of(of), dir);
    return 0;
}

static int listen_tcp(struct http_server *s, const char *where,
                      enum web_listen_of of, char ret_host[WEB_NAME_CAP],
                      int *ret_port, struct error *err)
{
    char host[WEB_NAME_CAP], place[2 * WEB_NAME_CAP];
    const char *port;
    if (split(where, host, &port) < 0)
        return error_set(err, ERR_USAGE,
                         "%s '%.100s': expected unix:PATH or HOST:PORT",
                         key_of(of), where);
    if (of == WEB_LISTEN_OWN && !conf_web_is_loopback(host))
        return error_set(
            err, ERR_USAGE,
            "%s '%.60s': only 127.0.0.1 unless --read-only: traffic is not "
            "encrypted, and whoever reads the cookie has your rights; 'ssh -L' "
            "leads here from elsewhere",
            key_of(of), where);
    if (strcmp(host, "localhost") == 0) /* whatever /etc/hosts says of it */
        (void)snprintf(host, sizeof(host), "127.0.0.1");
    (void)snprintf(place, sizeof(place), "%s%s", host, port);
    if (http_server_listen_tcp(s, place, ret_port, err) < 0)
        return -1;
    (void)snprintf(ret_host, WEB_NAME_CAP, "%s", host);
    return 0;
}

int web_listen_at(struct http_server *s, const char *where,
                  enum web_listen_of of, int64_t gid,
                  char ret_host[WEB_NAME_CAP], int *ret_port, struct error *err)
{
    const char *path = where + SCHEME_LEN;
    if (!web_listen_is_unix(where))
        return listen_tcp(s, where, of, ret_host, ret_port, err);
    if (check_directory(path, of, err) < 0 ||
        http_server_listen_unix(s, path, gid > 0 ? 0660 : 0600, gid, err) < 0)
        return -1;
    ret_host[0] = '\0';
    return 0;
}
