/* paths.c - see paths.h. */
#include "scheduler/ctld/startup/paths.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(char *ret, size_t cap, struct error *err, const char *a,
               const char *b)
{
    if (strlen(a) + strlen(b) >= cap)
        return error_set(err, ERR_CONFIG, "path is too long: '%s%s'", a, b);
    (void)snprintf(ret, cap, "%s%s", a, b);
    return 0;
}

int paths_personal_state(char *ret, size_t cap, struct error *err)
{
    const char *xdg = getenv("XDG_STATE_HOME");
    if (xdg && xdg[0] == '/')
        return put(ret, cap, err, xdg, "/mgpu");
    const char *home = getenv("HOME");
    if (home && home[0] == '/')
        return put(ret, cap, err, home, "/.local/state/mgpu");
    struct passwd pw, *found = NULL;
    char space[4096];
    if (getpwuid_r(getuid(), &pw, space, sizeof(space), &found) != 0 || !found)
        return error_set(err, ERR_CONFIG,
                         "no HOME: say where with --state-dir");
    return put(ret, cap, err, found->pw_dir, "/.local/state/mgpu");
}

int paths_absolute(const char *path, char *ret, size_t cap, struct error *err)
{
    char cwd[PATH_MAX];
    if (path[0] == '/')
        return put(ret, cap, err, path, "");
    if (!path[0])
        return error_set(err, ERR_CONFIG, "an empty path");
    if (!getcwd(cwd, sizeof(cwd) - 1))
        return error_sys(err, errno, "current directory");
    size_t len = strlen(cwd);
    memcpy(cwd + len, "/", 2);
    return put(ret, cap, err, cwd, path);
}

/* lstat: a link in /tmp that somebody else planted is not ours. */
static int check_private(const char *dir, struct error *err)
{
    struct stat st;
    if (lstat(dir, &st) < 0)
        return error_sys(err, errno, "'%s'", dir);
    /* A link of our own in a place of our own is well. */
    if (S_ISLNK(st.st_mode) && st.st_uid == geteuid() && stat(dir, &st) < 0)
        return error_sys(err, errno, "'%s'", dir);
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_CONFIG, "'%s' is not a directory", dir);
    if (st.st_uid != geteuid())
        return error_set(err, ERR_CONFIG,
                         "'%s' belongs to uid %lu: name one of your own, with "
                         "--state-dir or --socket",
                         dir, (unsigned long)st.st_uid);
    if (st.st_mode & 022)
        return error_set(err, ERR_CONFIG,
                         "'%s' is writable by others (mode %04o): chmod go-w "
                         "it",
                         dir, (unsigned)(st.st_mode & 07777));
    return 0;
}

int paths_private_dir(const char *dir, struct error *err)
{
    char part[PATH_MAX];
    if (put(part, sizeof(part), err, dir, "") < 0)
        return -1;
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char was = *p;
        *p = '\0';
        if (mkdir(part, 0700) < 0 && errno != EEXIST && errno != EISDIR)
            return error_sys(err, errno,
                             "make the directory '%s' (--state-dir and "
                             "--socket name others)",
                             part);
        *p = was;
        if (!was)
            break;
    }
    return check_private(dir, err);
}

int paths_private_parent(const char *file, struct error *err)
{
    char dir[PATH_MAX];
    if (put(dir, sizeof(dir), err, file, "") < 0)
        return -1;
    char *slash = strrchr(dir, '/');
    if (!slash || slash == dir)
        return error_set(err, ERR_CONFIG, "'%s' is in no directory of ours",
                         file);
    *slash = '\0';
    return paths_private_dir(dir, err);
}

static int is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
           access(path, X_OK) == 0;
}

static int try_in(const char *dir, size_t len, const char *sub,
                  const char *name, char *ret, size_t cap)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int)len, dir, sub, name);
    return len > 0 && dir[0] == '/' && n > 0 && (size_t)n < sizeof(path) &&
           (size_t)n < cap && is_program(path) &&
           put(ret, cap, NULL, path, "") == 0;
}

static bool try_path(const char *name, char *ret, size_t cap)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t len = strcspn(path, ":");
        if (try_in(path, len, "", name, ret, cap))
            return true;
        path += len + (path[len] == ':');
    }
    return false;
}

bool paths_finds(const char *program)
{
    char found[PATH_MAX];
    return strchr(program, '/') ? is_program(program)
                                : try_path(program, found, sizeof(found));
}

int paths_program(const char *name, char *ret, size_t cap, struct error *err)
{
    static const char *const subs[] = {"", "/../libexec/mgpu", "/../lib/mgpu"};
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *slash = strrchr(self, '/');
    size_t len = slash ? (size_t)(slash - self) : 0;
    for (size_t i = 0; i < sizeof(subs) / sizeof(subs[0]); i++)
        if (try_in(self, len, subs[i], name, ret, cap))
            return 0;
    if (try_path(name, ret, cap))
        return 0;
    return error_set(err, ERR_CONFIG, "%s: found neither beside %s nor on PATH",
                     name, self[0] ? self : "mgpu-ctld");
}
