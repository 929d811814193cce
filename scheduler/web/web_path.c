/* web_path.c - which paths are passed on to the daemon, see web_path.h. */
#include "scheduler/web/web_path.h"

#include <stdbool.h>
#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_visible(const char *p)
{
    for (; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '\\' || *p == '#')
            return false;
    return true;
}

/* Whether the escape at p stands for a character that no segment may hide. */
static bool is_hiding(const char *p)
{
    int high = hex(p[1]), low = high < 0 ? -1 : hex(p[2]);
    int c = high * 16 + low;
    return high < 0 || low < 0 || c < ' ' || c == 0x7f || c == '/' ||
           c == '\\' || c == '.' || c == '%';
}

static int check_segment(const char *p, size_t len, struct error *err)
{
    if (len == 0)
        return error_set(err, ERR_INVAL, "the path has an empty segment");
    if ((len == 1 && p[0] == '.') || (len == 2 && p[0] == '.' && p[1] == '.'))
        return error_set(err, ERR_INVAL, "the path has a segment of dots");
    for (size_t i = 0; i < len; i++)
        if (p[i] == '%' && is_hiding(p + i))
            return error_set(err, ERR_INVAL,
                             "the path has an escape that no path may have");
    return 0;
}

int web_path_check(const char *target, struct error *err)
{
    static const char root[] = "/v1/";
    if (strncmp(target, root, sizeof(root) - 1) != 0)
        return error_set(err, ERR_INVAL, "the path must begin with %s", root);
    if (!is_visible(target))
        return error_set(err, ERR_INVAL,
                         "the path has a character that must be escaped");
    const char *p = target;
    while (*p == '/') {
        size_t len = strcspn(++p, "/?");
        if (check_segment(p, len, err) < 0)
            return -1;
        p += len;
    }
    return 0;
}

static bool is_path(const char *target, const char *path)
{
    size_t n = strcspn(target, "?");
    return strlen(path) == n && strncmp(path, target, n) == 0;
}

bool web_path_is_watch(const char *target)
{
    return is_path(target, "/v1/watch");
}

int web_path_check_shown(const char *target, struct error *err)
{
    static const char *const shown[] = {"/v1/jobs", "/v1/watch", "/v1/nodes",
                                        "/v1/gpus"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        if (is_path(target, shown[i]))
            return 0;
    return error_set(err, ERR_DENIED,
                     "the page of the cluster does not show this: mgpu-web of "
                     "your own shows your jobs");
}
