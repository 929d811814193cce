/* web_cluster.c - the settings of the page of a cluster, see web_cluster.h. */
#include "scheduler/web/web_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DIGITS = RNG_TOKEN_CAP - 1 };

/* "FILE:LINE:COL: controller.KEY: ...", of whatever err says. */
static int at_key(const struct conf *c, const char *key, struct error *err)
{
    int32_t line = 1, column = 1;
    (void)conf_place(c, key, NULL, &line, &column);
    err->code = ERR_CONFIG;
    return error_wrap(err, "%s:%d:%d: %s", c->from.file, (int)line, (int)column,
                      key);
}

/* ---- the token ------------------------------------------------------------
 */

/* Root may keep it for this user: then a group of his reads it. */
static int check_owner(int fd, struct error *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return error_sys(err, errno, "the file");
    if (!S_ISREG(st.st_mode))
        return error_set(err, ERR_CONFIG, "it is no regular file");
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, ERR_CONFIG,
                         "the file must belong to mgpu-web's user or to root");
    if ((st.st_mode & 037) != 0)
        return error_set(err, ERR_CONFIG,
                         "others may read the file, or a group may write it: "
                         "its mode is %04o; chmod 0640, or less",
                         (unsigned)(st.st_mode & 07777));
    return 0;
}

static int take_token(const char *text, size_t len, char ret[RNG_TOKEN_CAP],
                      struct error *err)
{
    static const char digits[] = "0123456789abcdef";
    if (len > 0 && text[len - 1] == '\n')
        len--;
    if (len != DIGITS || strspn(text, digits) < DIGITS)
        return error_set(err, ERR_CONFIG,
                         "the file must have one line of %d hexadecimal "
                         "digits: make it with 'openssl rand -hex 32'",
                         DIGITS);
    memcpy(ret, text, DIGITS);
    ret[DIGITS] = '\0';
    return 0;
}

static int read_token(const char *path, char ret[RNG_TOKEN_CAP],
                      struct error *err)
{
    char text[DIGITS + 16] = "";
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_sys(err, errno, "'%s'", path);
    int rc = check_owner(fd, err);
    ssize_t n = rc == 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (n < 0)
        rc = error_sys(err, errno, "the file");
    if (rc == 0)
        rc = take_token(text, (size_t)n, ret, err);
    (void)close(fd);
    explicit_bzero(text, sizeof(text));
    return rc < 0 ? error_wrap(err, "'%s'", path) : 0;
}

/* ---- all of them ----------------------------------------------------------
 */

static int find_group(const char *name, int64_t *ret, struct error *err)
{
    errno = 0;
    const struct group *g = getgrnam(name);
    if (!g)
        return error_set(err, ERR_CONFIG, "there is no group '%.64s'", name);
    *ret = (int64_t)g->gr_gid;
    return 0;
}

static int look(struct web_cluster *c, struct error *err)
{
    const struct conf *conf = &c->conf;
    if (conf->controller.web_token_file &&
        read_token(conf->controller.web_token_file, c->token, err) < 0)
        return at_key(conf, "controller.web_token_file", err);
    if (conf->controller.web_group &&
        find_group(conf->controller.web_group, &c->gid, err) < 0)
        return at_key(conf, "controller.web_group", err);
    return 0;
}

int web_cluster_check_page(const struct web_cluster *c, struct error *err)
{
    if (c->conf.controller.web_listen)
        return 0;
    (void)error_set(err, ERR_CONFIG,
                    "it is not set, so this cluster has no page: as in "
                    "web_listen: \"127.0.0.1:8765\"");
    return at_key(&c->conf, "controller.web_listen", err);
}

int web_cluster_load(const char *path, struct web_cluster *ret,
                     struct buf *text, struct error *err)
{
    struct web_cluster c = {.gid = 0};
    if (conf_load(path, &c.conf, text, err) < 0)
        return -1;
    if (look(&c, err) < 0) {
        web_cluster_clear(&c);
        return -1;
    }
    *ret = c;
    explicit_bzero(c.token, sizeof(c.token));
    return 0;
}

void web_cluster_clear(struct web_cluster *c)
{
    conf_clear(&c->conf);
    explicit_bzero(c->token, sizeof(c->token));
}

bool web_cluster_is_same_place(const struct web_cluster *a,
                               const struct web_cluster *b)
{
    return a->gid == b->gid && strcmp(a->conf.controller.web_listen,
                                      b->conf.controller.web_listen) == 0;
}
