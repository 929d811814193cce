/* backup_dir.c - see backup_dir.h. Every access goes through descriptors of
 * directories that we own and that others cannot write to, and never through a
 * link. */
#include "db/backup_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STAMP_LEN = 16, NAME_CAP = 256, HEADER_BYTES = 100 };

/* The files of a backup, and those that SQLite creates next to a database in
 * use. */
static const char *const files[] = {
    "metrics.db", "metrics.db-journal", "metrics.db-wal", "metrics.db-shm",
    "state.db",   "state.db-journal",   "state.db-wal",   "state.db-shm",
    "secret",     "admin.log",          "first_id",       "backup"};

/* ---- names -----------------------------------------------------------------
 */

static void stamp_of(double at_s, char ret[STAMP_LEN + 1])
{
    time_t t = (time_t)at_s;
    struct tm tm;
    ret[0] = '\0';
    if (gmtime_r(&t, &tm))
        (void)strftime(ret, STAMP_LEN + 1, "%Y%m%dT%H%M%SZ", &tm);
}

/* NAN: not a time. Formatting the time must give the same text, so that the
 * 31st of February is rejected. */
static double stamp_time(const char *s)
{
    char again[STAMP_LEN + 1];
    struct tm tm = {.tm_isdst = 0};
    const char *end = strptime(s, "%Y%m%dT%H%M%SZ", &tm);
    if (!end || end != s + STAMP_LEN)
        return NAN;
    double at_s = (double)timegm(&tm);
    stamp_of(at_s, again);
    return strncmp(s, again, STAMP_LEN) == 0 ? at_s : NAN;
}

/* Parses "CLUSTER-STAMP" followed by `rest`; NAN: another name. */
static double name_time(const char *name, const char *cluster, const char *rest)
{
    size_t len = strlen(cluster);
    if (strncmp(name, cluster, len) != 0 || name[len] != '-' ||
        strlen(name) != len + 1 + STAMP_LEN + strlen(rest) ||
        strcmp(name + len + 1 + STAMP_LEN, rest) != 0)
        return NAN;
    return stamp_time(name + len + 1);
}

/* ---- directories -----------------------------------------------------------
 */

/* -1, and *ret_missing, if it does not exist. */
static int open_dir(const char *dir, bool *ret_missing, struct error *err)
{
    struct stat st;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *ret_missing = fd < 0 && errno == ENOENT;
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return error_set(err, ERR_CONFIG,
                         "'%s' is a symbolic link or no directory", dir);
    if (fd < 0)
        return error_sys(err, errno, "open '%s'", dir);
    int rc = fstat(fd, &st) < 0 ? error_sys(err, errno, "'%s'", dir) : 0;
    if (rc == 0 && st.st_uid != geteuid())
        rc = error_set(err, ERR_CONFIG, "'%s' belongs to uid %lu, not to us",
                       dir, (unsigned long)st.st_uid);
    if (rc == 0 && (st.st_mode & (S_IWGRP | S_IWOTH)))
        rc = error_set(err, ERR_CONFIG,
                       "'%s' is writable by others (mode %03o): chmod it to "
                       "0700",
                       dir, (unsigned)(st.st_mode & 0777));
    if (rc == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static int open_own(int at, const char *name)
{
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid())) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Whether it is an SQLite database of ours: its first bytes, and the
 * application id at byte 68. */
static bool is_database(int at, const char *name, const char id[4])
{
    char head[HEADER_BYTES];
    struct stat st;
    int fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool good = fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
                pread(fd, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                memcmp(head, "SQLite format 3", 16) == 0 &&
                memcmp(head + 68, id, 4) == 0;
    if (fd >= 0)
        (void)close(fd);
    return good;
}

/* The mark is written last, after both databases were verified. */
static bool is_whole(int at, const char *name)
{
    struct stat st;
    int fd = open_own(at, name);
    bool good = fd >= 0 &&
                fstatat(fd, "backup", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(st.st_mode) && is_database(fd, "state.db", "mgps") &&
                is_database(fd, "metrics.db", "mgpm");
    if (fd >= 0)
        (void)close(fd);
    return good;
}

static void remove_at(int at, const char *name)
{
    int fd = open_own(at, name);
    if (fd < 0)
        return;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        (void)unlinkat(fd, files[i], 0);
    (void)close(fd);
    (void)unlinkat(at, name, AT_REMOVEDIR);
}

void backups_remove_part(const char *path)
{
    remove_at(AT_FDCWD, path);
}

/* ---- the list --------------------------------------------------------------
 */

struct one {
    double at_s;
    bool is_odd; /* made with a wrong clock */
    char name[NAME_CAP];
};

struct list {
    struct one *all; /* owned */
    size_t n, cap;
};

static int add(struct list *l, const struct one *o, struct error *err)
{
    if (l->n == l->cap) {
        size_t cap = l->cap > 0 ? 2 * l->cap : 16;
        struct one *p = realloc(l->all, cap * sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "backups");
        l->all = p;
        l->cap = cap;
    }
    l->all[l->n++] = *o;
    return 0;
}

/* Sorts the newest first. */
static int compare(const void *a, const void *b)
{
    const struct one *x = a, *y = b;
    if (x->is_odd != y->is_odd)
        return x->is_odd - y->is_odd;
    return (x->at_s < y->at_s) - (x->at_s > y->at_s);
}

/* Calls each() for each name in the directory that begins with the
 * cluster's. */
static int each_name(int fd, const char *dir,
                     int (*each)(void *arg, const char *name,
                                 struct error *err),
                     void *arg, struct error *err)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) {
        rc = error_sys(err, errno, "read '%s'", dir);
        if (copy >= 0)
            (void)close(copy);
        return rc;
    }
    while (rc == 0) {
        errno = 0;
        const struct dirent *e = readdir(d);
        if (!e && errno)
            rc = error_sys(err, errno, "read '%s'", dir);
        if (!e)
            break;
        rc = each(arg, e->d_name, err);
    }
    (void)closedir(d);
    return rc;
}

struct look {
    int fd;
    const char *cluster;
    double now_s;
    struct list found;
};

static int find(void *arg, const char *name, struct error *err)
{
    struct look *k = arg;
    struct one o = {.at_s = name_time(name, k->cluster, "")};
    if (isnan(o.at_s) || strlen(name) >= sizeof(o.name) ||
        !is_whole(k->fd, name))
        return 0;
    o.is_odd = o.at_s > k->now_s;
    memcpy(o.name, name, strlen(name) + 1);
    return add(&k->found, &o, err);
}

static int find_all(struct look *k, const char *dir, struct error *err)
{
    int rc = each_name(k->fd, dir, find, k, err);
    if (rc == 0 && k->found.n > 0)
        qsort(k->found.all, k->found.n, sizeof(*k->found.all), compare);
    return rc;
}

int backups_look(const char *dir, const char *cluster, double now_s,
                 struct backups *ret, struct error *err)
{
    bool is_missing;
    struct look k = {.fd = open_dir(dir, &is_missing, err),
                     .cluster = cluster,
                     .now_s = now_s};
    if (k.fd < 0 && !is_missing)
        return -1;
    int rc = is_missing ? 0 : find_all(&k, dir, err);
    if (rc == 0)
        *ret =
            (struct backups){.n = (int32_t)k.found.n,
                             .last_s = k.found.n > 0 && !k.found.all[0].is_odd
                                           ? k.found.all[0].at_s
                                           : NAN};
    if (k.fd >= 0)
        (void)close(k.fd);
    free(k.found.all);
    return rc;
}

static int remove_if_part(void *arg, const char *name, struct error *err)
{
    const struct look *k = arg;
    (void)err;
    if (!isnan(name_time(name, k->cluster, ".part")))
        remove_at(k->fd, name);
    return 0;
}

int backups_begin(const char *dir, const char *cluster, double now_s,
                  char ret[BACKUPS_PATH_CAP], struct error *err)
{
    char stamp[STAMP_LEN + 1];
    bool is_missing;
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return error_sys(err, errno, "make '%s'", dir);
    struct look k = {.fd = open_dir(dir, &is_missing, err),
                     .cluster = cluster,
                     .now_s = now_s};
    if (k.fd < 0)
        return -1;
    int rc = each_name(k.fd, dir, remove_if_part, &k, err);
    (void)close(k.fd);
    stamp_of(now_s, stamp);
    int n = snprintf(ret, BACKUPS_PATH_CAP, "%s/%s-%s", dir, cluster, stamp);
    if (rc == 0 && (n < 0 || n >= BACKUPS_PATH_CAP))
        rc = error_set(err, ERR_CONFIG, "'%.100s' is too long", dir);
    return rc;
}

/* Rename it first: after a kill in between it is an incomplete backup. */
static int remove_one(int fd, const char *name, struct error *err)
{
    char part[NAME_CAP + 8];
    struct stat st;
    (void)snprintf(part, sizeof(part), "%s.part", name);
    remove_at(fd, part);
    if (renameat(fd, name, fd, part) < 0)
        return error_sys(err, errno, "remove '%s'", name);
    remove_at(fd, part);
    return fstatat(fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0
               ? 0
               : error_set(err, ERR_STATE,
                           "'%s' has files that do not belong to a backup: "
                           "not removed",
                           part);
}

int backups_prune(const char *dir, const char *cluster, double now_s,
                  int32_t keep, int32_t *ret_removed, struct error *err)
{
    bool is_missing;
    struct look k = {.fd = open_dir(dir, &is_missing, err),
                     .cluster = cluster,
                     .now_s = now_s};
    *ret_removed = 0;
    if (k.fd < 0)
        return -1;
    int rc = find_all(&k, dir, err);
    for (size_t i = (size_t)keep; rc == 0 && i < k.found.n; i++) {
        struct error why = ERROR_INIT;
        if (remove_one(k.fd, k.found.all[i].name, &why) == 0)
            ++*ret_removed;
        else if (err && err->code == ERR_NONE)
            *err = why;
    }
    if (rc == 0 && *ret_removed < (int32_t)k.found.n - keep)
        rc = -1;
    if (k.fd >= 0)
        (void)close(k.fd);
    free(k.found.all);
    return rc;
}
