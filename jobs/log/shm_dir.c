/* shm_dir.c - create, lock and sweep directories in /dev/shm; see shm_dir.h. */
#include "jobs/log/shm_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Another process may sweep a directory between its creation and its lock. */
enum { TRIES = 10 };

/* With the user's number, for people who look into /dev/shm. */
#define PREFIX "mgpu-rank.%lu."

static int open_dir(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Check after locking that the directory still exists. */
static bool holds(int fd)
{
    struct stat st;
    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) == 0 &&
           fstat(fd, &st) == 0 && st.st_nlink > 0;
}

int shm_dir_make(const char *base, struct shm_dir *ret, struct error *err)
{
    struct shm_dir d = {.fd = -1};
    for (int i = 0; i < TRIES; i++) {
        int n = snprintf(d.path, sizeof(d.path), "%s/" PREFIX "XXXXXX", base,
                         (unsigned long)geteuid());
        if (n < 0 || (size_t)n >= sizeof(d.path))
            return error_set(err, ERR_INVAL, "'%.60s...' is too long", base);
        if (!mkdtemp(d.path))
            return error_sys(err, errno, "create '%s'", d.path);
        d.fd = open_dir(AT_FDCWD, d.path);
        if (holds(d.fd)) {
            *ret = d;
            return 0;
        }
        if (d.fd >= 0)
            (void)close(d.fd);
    }
    return error_set(err, ERR_IO, "'%s': another process removes it", d.path);
}

/* Only files are removed; a subdirectory keeps it. */
static void empty(int fd)
{
    int own = dup(fd);
    DIR *dir = own >= 0 ? fdopendir(own) : NULL;
    const struct dirent *e;
    if (!dir) {
        if (own >= 0)
            (void)close(own);
        return;
    }
    while ((e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            (void)unlinkat(fd, e->d_name, 0);
    (void)closedir(dir);
}

void shm_dir_remove(struct shm_dir *d)
{
    if (d->fd < 0)
        return;
    empty(d->fd);
    (void)rmdir(d->path);
    (void)close(d->fd);
    d->fd = -1;
}

static bool remove_left(int base, const char *name)
{
    struct stat st;
    int fd = open_dir(base, name);
    bool is_left = fd >= 0 && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
                   flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (is_left)
        empty(fd);
    bool is_gone = is_left && unlinkat(base, name, AT_REMOVEDIR) == 0;
    if (fd >= 0)
        (void)close(fd);
    return is_gone;
}

int shm_dir_sweep(const char *base)
{
    char prefix[48];
    const struct dirent *e;
    DIR *dir = opendir(base);
    int n = 0;
    if (!dir)
        return 0;
    (void)snprintf(prefix, sizeof(prefix), PREFIX, (unsigned long)geteuid());
    while ((e = readdir(dir)) != NULL)
        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            n += remove_left(dirfd(dir), e->d_name);
    (void)closedir(dir);
    return n;
}
