/* remove_tree.c - see remove_tree.h. By descriptors all the way: a job may
 * change its own directory while it is read, and must not lead us out of it. */
#include "scheduler/ctld/maintenance/remove_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Each level has a descriptor open. */
enum { DEPTH_MAX = 64 };

struct tree {
    dev_t device;
    uid_t owner;
    const _Atomic bool *stop;
    struct error *err;
};

static int refuse(const struct tree *t, int code, const char *name,
                  const char *why)
{
    return error_set(t->err, (enum err_code)code, "'%.80s' stays: %s", name,
                     why);
}

/* A job may leave what nobody may enter, or write in, itself neither: a cache
 * of modules is like that. Ours is the directory all the same. */
static int open_it(int fd, const struct stat *st)
{
    char path[40];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if ((st->st_mode & S_IRWXU) != S_IRWXU && chmod(path, S_IRWXU) < 0)
        return -1;
    return openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int open_level(const struct tree *t, int at, const char *name)
{
    struct stat st;
    int fd = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return refuse(t, ERR_IO, name, strerrordesc_np(errno));
    bool is_ours =
        fstat(fd, &st) == 0 && st.st_dev == t->device && st.st_uid == t->owner;
    int opened = is_ours ? open_it(fd, &st) : -1, why = errno;
    (void)close(fd);
    if (opened >= 0)
        return opened;
    return is_ours ? refuse(t, ERR_IO, name, strerrordesc_np(why))
                   : refuse(t, ERR_DENIED, name,
                            "it is another user's, or another file system");
}

static int remove_level(const struct tree *t, int at, const char *name,
                        int depth);

static int remove_entry(const struct tree *t, int fd, const char *name,
                        int depth)
{
    struct stat st;
    if (t->stop && atomic_load(t->stop))
        return refuse(t, ERR_UNAVAIL, name, "the daemon is stopping");
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT
                   ? 0
                   : refuse(t, ERR_IO, name, strerrordesc_np(errno));
    if (S_ISDIR(st.st_mode))
        return remove_level(t, fd, name, depth + 1);
    return unlinkat(fd, name, 0) == 0 || errno == ENOENT
               ? 0
               : refuse(t, ERR_IO, name, strerrordesc_np(errno));
}

static int remove_level(const struct tree *t, int at, const char *name,
                        int depth)
{
    if (depth > DEPTH_MAX)
        return refuse(t, ERR_LIMIT, name, "it is too deep");
    int fd = open_level(t, at, name), rc = 0;
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;
    if (!d) {
        if (fd >= 0)
            (void)close(fd);
        return fd < 0 ? -1 : refuse(t, ERR_NOMEM, name, "no memory");
    }
    while (rc == 0 && (e = readdir(d)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_entry(t, fd, e->d_name, depth);
    (void)closedir(d);
    if (rc == 0 && unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        rc = refuse(t, ERR_IO, name, strerrordesc_np(errno));
    return rc;
}

int dir_tree_remove(const char *dir, const char *name, const _Atomic bool *stop,
                    struct error *err)
{
    struct stat st;
    struct tree t = {.owner = geteuid(), .stop = stop, .err = err};
    int at = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (at < 0)
        return errno == ENOENT ? 0 : error_sys(err, errno, "open '%s'", dir);
    int rc = fstat(at, &st) < 0 ? error_sys(err, errno, "'%s'", dir) : 0;
    t.device = st.st_dev;
    if (rc == 0)
        rc = remove_entry(&t, at, name, 0);
    (void)close(at);
    return rc;
}
