/* put_aside.c - see put_aside.h, and store_sqlite_damage() of metric_store.h.
 *
 * The file names are the only state: as long as such a file exists next to the
 * databases, an administrator has to look at it; moving it away ends that. The
 * log is renamed first. If a crash then leaves the database without its log,
 * the next start renames the database, and the log is never taken for that of
 * the new database. */
#include "db/put_aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "db/metric_store.h"

enum { PATH_CAP = 1024 };
static const char mark[] = "metrics.db.damaged";

static int path_of(char ret[PATH_CAP], const char *dir, const char *name,
                   const char *end, struct error *err)
{
    int n = snprintf(ret, PATH_CAP, "%s/%s%s", dir, name, end);
    return n > 0 && n < PATH_CAP
               ? 0
               : error_set(err, ERR_CONFIG, "'%s' is too long", dir);
}

/* Chooses a name that does not exist: a second one within a second gets the
 * next second's. */
static int choose_name(const char *dir, char ret[STORE_FILE_CAP],
                       struct error *err)
{
    char path[PATH_CAP], stamp[24];
    struct tm tm;
    for (time_t t = time(NULL);; t++) {
        if (!gmtime_r(&t, &tm))
            return error_sys(err, errno, "convert the time");
        (void)strftime(stamp, sizeof(stamp), "%Y%m%dT%H%M%SZ", &tm);
        (void)snprintf(ret, STORE_FILE_CAP, "%s-%s", mark, stamp);
        if (path_of(path, dir, ret, "", err) < 0)
            return -1;
        if (access(path, F_OK) < 0)
            return 0;
    }
}

int put_aside(const char *dir, struct error *err)
{
    static const char *const ends[] = {"-wal", "-shm", ""};
    char from[PATH_CAP], to[PATH_CAP], name[STORE_FILE_CAP];
    if (choose_name(dir, name, err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        if (path_of(from, dir, "metrics.db", ends[i], err) < 0 ||
            path_of(to, dir, name, ends[i], err) < 0)
            return -1;
        if (rename(from, to) < 0 && errno != ENOENT)
            return error_sys(err, errno, "rename '%s'", from);
    }
    if (path_of(from, dir, mark, "", err) < 0)
        return -1;
    if (unlink(from) < 0 && errno != ENOENT)
        return error_sys(err, errno, "remove '%s'", from);
    return 0;
}

bool put_aside_mark(const char *dir)
{
    char path[PATH_CAP];
    int fd =
        path_of(path, dir, mark, "", NULL) < 0
            ? -1
            : open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

bool put_aside_is_marked(const char *dir)
{
    char path[PATH_CAP];
    return path_of(path, dir, mark, "", NULL) == 0 && access(path, F_OK) == 0;
}

/* Whether the name ends like that of a log. */
static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), len = strlen(end);
    return n >= len && strcmp(name + n - len, end) == 0;
}

bool store_sqlite_damage(const char *dir, struct store_damage *ret)
{
    struct store_damage found = {.file = ""};
    const struct dirent *e;
    DIR *d = opendir(dir);
    while (d && (e = readdir(d))) {
        const char *name = e->d_name;
        bool is_mark = strcmp(name, mark) == 0;
        if (strncmp(name, mark, sizeof(mark) - 1) != 0 ||
            ends_in(name, "-wal") || ends_in(name, "-shm") ||
            strlen(name) >= sizeof(found.file))
            continue;
        found.is_waiting = found.is_waiting || is_mark;
        if (!is_mark && strcmp(name, found.file) > 0)
            memcpy(found.file, name, strlen(name) + 1);
    }
    if (d)
        (void)closedir(d);
    *ret = found;
    return found.is_waiting || found.file[0] != '\0';
}
