/* privileges.c - see privileges.h. */
#include "scheduler/ctld/startup/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- accounts -------------------------------------------------------------
 */
static int look_up(const char *name, struct passwd *ret, char *space,
                   size_t cap, const char *key, struct error *err)
{
    struct passwd *found = NULL;
    int rc = getpwnam_r(name, ret, space, cap, &found);
    if (found)
        return 0;
    return error_set(err, ERR_CONFIG, "%s: no account '%s' here%s%s", key, name,
                     rc ? ": " : "", rc ? strerror(rc) : "");
}

int privileges_account(const char *name, struct account *ret, struct error *err)
{
    static char space[65536];
    struct passwd pw;
    struct account a;
    if (look_up(name, &pw, space, sizeof(space), "controller.user", err) < 0)
        return -1;
    if (pw.pw_uid == 0)
        return error_set(err, ERR_CONFIG,
                         "controller.user: '%s' is root: name an account "
                         "without privileges",
                         name);
    a.uid = pw.pw_uid;
    a.gid = pw.pw_gid;
    if ((size_t)snprintf(a.name, sizeof(a.name), "%s", pw.pw_name) >=
        sizeof(a.name))
        return error_set(err, ERR_CONFIG, "controller.user: too long a name");
    *ret = a;
    return 0;
}

int privileges_group(const char *name, const struct account *who,
                     int64_t *ret_gid, struct error *err)
{
    gid_t gids[1024];
    int n = (int)(sizeof(gids) / sizeof(gids[0]));
    static char space[65536];
    struct group gr, *found = NULL;
    int why = getgrnam_r(name, &gr, space, sizeof(space), &found);
    if (!found)
        return why ? error_sys(err, why,
                               "controller.socket_group: look up '%s'", name)
                   : error_set(err, ERR_CONFIG,
                               "controller.socket_group: there is no group "
                               "'%s' here: make one, groupadd --system %s",
                               name, name);
    if (gr.gr_gid == 0)
        return error_set(err, ERR_CONFIG,
                         "controller.socket_group: '%s' is root's: name one of "
                         "users",
                         name);
    if (getgrouplist(who->name, who->gid, gids, &n) < 0)
        n = 0;
    for (int i = 0; i < n; i++) {
        if (gids[i] == gr.gr_gid) {
            *ret_gid = (int64_t)gr.gr_gid;
            return 0;
        }
    }
    return error_set(err, ERR_CONFIG,
                     "controller.socket_group: '%s' is not in '%s', and cannot "
                     "give its socket to it: usermod --append --groups %s %s",
                     who->name, name, name, who->name);
}

int privileges_admins(const struct conf *conf, int64_t **ret, size_t *ret_n,
                      struct error *err)
{
    static char space[65536];
    const struct spec_list *names = &conf->auth.admins;
    struct passwd pw;
    size_t n = 0;
    int64_t *uids = calloc(names->n + 1, sizeof(*uids));
    if (!uids)
        return error_set(err, ERR_NOMEM, "administrators");
    for (size_t i = 0; i < names->n; i++) {
        if (look_up(names->items[i], &pw, space, sizeof(space), "auth.admins",
                    err) < 0) {
            free(uids);
            return -1;
        }
        if (pw.pw_uid != 0)
            uids[n++] = (int64_t)pw.pw_uid;
    }
    *ret = uids;
    *ret_n = n;
    return 0;
}

/* ---- directories ----------------------------------------------------------
 */
enum { LINKS_MAX = 40 };

struct walk {
    const struct account *who;
    mode_t mode;
    int fd;              /* O_PATH, of what `real` names */
    char real[PATH_MAX]; /* without links; "" is the root */
    char rest[PATH_MAX]; /* the parts to come */
    int n_links;
};

static int set_text(char *dst, size_t cap, struct error *err, const char *a,
                    const char *sep, const char *b)
{
    char text[PATH_MAX];
    int n = snprintf(text, sizeof(text), "%s%s%s", a, sep, b);
    if (n < 0 || (size_t)n >= sizeof(text) || (size_t)n >= cap)
        return error_set(err, ERR_CONFIG, "path is too long: '%.80s...'", a);
    memcpy(dst, text, (size_t)n + 1);
    return 0;
}

static int go_to_root(struct walk *w, struct error *err)
{
    int fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '/'");
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = fd;
    w->real[0] = '\0';
    return 0;
}

/* The next part into ret[NAME_MAX + 1]. Returns 1, or 0 when there is none. */
static int next_part(struct walk *w, char *ret, bool *ret_last,
                     struct error *err)
{
    char *p = w->rest + strspn(w->rest, "/");
    size_t len = strcspn(p, "/");
    if (len == 0)
        return 0;
    if (len > NAME_MAX)
        return error_set(err, ERR_CONFIG, "name is too long: '%.80s...'", p);
    memcpy(ret, p, len);
    ret[len] = '\0';
    p += len;
    *ret_last = p[strspn(p, "/")] == '\0';
    memmove(w->rest, p, strlen(p) + 1);
    return 1;
}

static int follow(struct walk *w, int link, const struct stat *st,
                  struct error *err)
{
    char to[PATH_MAX];
    ssize_t n = readlinkat(link, "", to, sizeof(to) - 1);
    if (n < 0)
        return error_sys(err, errno, "'%s'", w->real);
    to[n] = '\0';
    if (st->st_uid != 0)
        return error_set(err, ERR_CONFIG,
                         "a link in '%s/' to '%.80s' belongs to uid %lu: write "
                         "where it leads instead",
                         w->real, to, (unsigned long)st->st_uid);
    if (++w->n_links > LINKS_MAX)
        return error_set(err, ERR_CONFIG, "too many links in '%s/'", w->real);
    if (set_text(w->rest, sizeof(w->rest), err, to, "/", w->rest) < 0)
        return -1;
    return to[0] == '/' ? go_to_root(w, err) : 0;
}

/* Ours from now on: who's, when it is the last. */
static int make(const struct walk *w, const char *name, bool is_last,
                struct error *err)
{
    struct stat st;
    if (mkdirat(w->fd, name, is_last ? 0700 : 0755) < 0)
        return error_sys(err, errno, "mkdir '%s/%s'", w->real, name);
    int fd =
        openat(w->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return error_sys(err, errno, "open '%s/%s'", w->real, name);
    int rc = fstat(fd, &st) == 0 && st.st_uid == 0
                 ? 0
                 : error_set(err, ERR_CONFIG, "'%s/%s' was exchanged", w->real,
                             name);
    mode_t mode = is_last ? w->mode : 0755;
    if (rc == 0 && ((is_last && fchown(fd, w->who->uid, w->who->gid) < 0) ||
                    fchmod(fd, mode) < 0))
        rc = error_sys(err, errno, "give '%s/%s' to '%s'", w->real, name,
                       w->who->name);
    (void)close(fd);
    return rc;
}

static int check_dir(const struct walk *w, const struct stat *st, bool is_last,
                     struct error *err)
{
    const char *name = w->who->name;
    unsigned mode = (unsigned)(st->st_mode & 07777);
    if (!S_ISDIR(st->st_mode))
        return error_set(err, ERR_CONFIG, "'%s' is not a directory", w->real);
    if (st->st_uid != w->who->uid && (is_last || st->st_uid != 0))
        return error_set(err, ERR_CONFIG,
                         "'%s' belongs to uid %lu: give it to '%s'", w->real,
                         (unsigned long)st->st_uid, is_last ? name : "root");
    if ((mode & 022) && (is_last || !(mode & S_ISVTX)))
        return error_set(err, ERR_CONFIG,
                         "'%s' is writable by others (mode %04o)", w->real,
                         mode);
    if (w->mode == 0755 && !(mode & S_IXOTH))
        return error_set(err, ERR_CONFIG,
                         "'%s' (mode %04o) keeps users from the socket",
                         w->real, mode);
    return 0;
}

static int arrive(struct walk *w, int fd, const struct stat *st, bool is_last,
                  struct error *err)
{
    (void)close(w->fd);
    w->fd = fd;
    return check_dir(w, st, is_last, err);
}

/* "." or "..": the way came through there already. */
static int step_back(struct walk *w, const char *name, bool is_last,
                     struct error *err)
{
    struct stat st;
    int fd = openat(w->fd, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_sys(err, errno, "'%s/%s'", w->real, name);
    char *slash = strrchr(w->real, '/');
    if (strcmp(name, "..") == 0 && slash)
        *slash = '\0';
    return arrive(w, fd, &st, is_last, err);
}

/* Walks one part of the path further. */
static int step(struct walk *w, const char *name, bool is_last,
                struct error *err)
{
    struct stat st;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return step_back(w, name, is_last, err);
    int fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (make(w, name, is_last, err) < 0)
            return -1;
        fd = openat(w->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)error_sys(err, errno, "'%s/%s'", w->real, name);
        if (fd >= 0)
            (void)close(fd);
        return -1;
    }
    if (S_ISLNK(st.st_mode)) {
        int rc = follow(w, fd, &st, err);
        (void)close(fd);
        return rc;
    }
    if (set_text(w->real, sizeof(w->real), err, w->real, "/", name) < 0) {
        (void)close(fd);
        return -1;
    }
    return arrive(w, fd, &st, is_last, err);
}

int privileges_dir(const char *path, const struct account *who, mode_t mode,
                   char *ret, size_t cap, struct error *err)
{
    struct walk w = {.who = who, .mode = mode, .fd = -1};
    char part[NAME_MAX + 1];
    bool is_last = false;
    int rc = path[0] == '/'
                 ? set_text(w.rest, sizeof(w.rest), err, path, "", "")
                 : error_set(err, ERR_CONFIG, "'%s' is not absolute", path);
    if (rc == 0)
        rc = go_to_root(&w, err);
    while (rc == 0 && (rc = next_part(&w, part, &is_last, err)) > 0)
        rc = step(&w, part, is_last, err);
    if (rc == 0 && w.real[0] == '\0')
        rc = error_set(err, ERR_CONFIG, "'/' is no directory of ours");
    if (rc == 0)
        rc = set_text(ret, cap, err, w.real, "", "");
    if (w.fd >= 0)
        (void)close(w.fd);
    return rc;
}

/* The part of the path before the one with %u that is there, without links;
 * "": it cannot be told. */
static int real_top(const char *path, char ret[static PATH_MAX],
                    struct error *err)
{
    char part[PATH_MAX];
    if (set_text(part, sizeof(part), err, path, "", "") < 0)
        return -1;
    char *user = strstr(part, "%u");
    if (user)
        *user = '\0';
    ret[0] = '\0';
    for (char *slash; (slash = strrchr(part, '/'));) {
        *slash = '\0';
        if (realpath(part[0] ? part : "/", ret) || errno != ENOENT)
            break;
    }
    return 0;
}

static int check_way(const char *dir, const struct account *who,
                     struct error *err)
{
    struct stat st;
    if (stat(dir, &st) < 0)
        return 0;
    if (st.st_uid != 0 && st.st_uid != who->uid)
        return error_set(err, ERR_CONFIG,
                         "'%s' belongs to uid %lu, who could exchange what is "
                         "in it: give it to root",
                         dir, (unsigned long)st.st_uid);
    bool is_open =
        (st.st_mode & S_IWOTH) || ((st.st_mode & S_IWGRP) && st.st_gid != 0);
    if (is_open && !(st.st_mode & S_ISVTX))
        return error_set(err, ERR_CONFIG,
                         "'%s' is writable by others (mode %04o), who could "
                         "exchange what is in it: chmod +t, or let root make "
                         "the directories of users",
                         dir, (unsigned)(st.st_mode & 07777));
    return 0;
}

int privileges_way(const char *path, const struct account *who,
                   struct error *err)
{
    char top[PATH_MAX];
    if (real_top(path, top, err) < 0)
        return -1;
    for (char *p = top; *p; p++) {
        if (*p != '/' || p == top)
            continue;
        *p = '\0';
        if (check_way(top, who, err) < 0)
            return -1;
        *p = '/';
    }
    return top[0] ? check_way(top, who, err) : 0;
}

int privileges_file(const char *path, struct error *err)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return error_sys(err, errno, "'%s'", path);
    if (st.st_uid != 0 || (st.st_mode & 022))
        return error_set(err, ERR_CONFIG,
                         "'%s' (uid %lu, mode %04o) can be changed by others "
                         "than root, who reads it",
                         path, (unsigned long)st.st_uid,
                         (unsigned)(st.st_mode & 07777));
    return 0;
}

/* ---- identity -------------------------------------------------------------
 */
int privileges_open_log(const char *path, const struct account *who,
                        int *ret_fd, struct error *err)
{
    uid_t me = geteuid();
    if (seteuid(who->uid) < 0)
        return error_sys(err, errno, "become '%s'", who->name);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
                  0600);
    int saved = errno;
    if (seteuid(me) < 0)
        abort(); /* neither here nor there: nothing may follow */
    if (fd < 0)
        return error_sys(err, saved, "open '%s'", path);
    *ret_fd = fd;
    return 0;
}

static bool is_all(uid_t id, uid_t r, uid_t e, uid_t s)
{
    return r == id && e == id && s == id;
}

int privileges_become(const struct account *who, struct error *err)
{
    uid_t r, e, s;
    gid_t rg, eg, sg;
    /* Groups first: whoever has given up root cannot change them. */
    if (initgroups(who->name, who->gid) < 0 ||
        setresgid(who->gid, who->gid, who->gid) < 0 ||
        setresuid(who->uid, who->uid, who->uid) < 0)
        return error_sys(err, errno, "become '%s'", who->name);
    if (getresuid(&r, &e, &s) < 0 || !is_all(who->uid, r, e, s) ||
        getresgid(&rg, &eg, &sg) < 0 || !is_all(who->gid, rg, eg, sg) ||
        setuid(0) == 0 || seteuid(0) == 0)
        return error_set(err, ERR_DENIED, "'%s' could become root again",
                         who->name);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
        return error_sys(err, errno, "set what this process may do");
    return 0;
}
