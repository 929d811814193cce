/* store_dir.c - see store_dir.h.
 *
 * The lock is an open file description lock on DIR/lock: unlike a lock of the
 * process it also excludes a second store in the same process, and a crash
 * releases it. The process id in the file is only for the error message. */
#include "db/store_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "jobs/base/file_atomic.h"

/* From linux/magic.h and the file systems' own sources: that header lacks those
 * outside the kernel. FUSE is not listed, since it also serves local disks. */
static const struct {
    unsigned long magic;
    const char *name;
} network[] = {
    {0x00006969, "NFS"},    {0xff534d42, "CIFS"},   {0xfe534d42, "SMB2"},
    {0x0000517b, "SMB"},    {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},
    {0x19830326, "BeeGFS"}, {0x00c36400, "Ceph"},   {0x5346414f, "AFS"},
    {0x6b414653, "kAFS"},   {0x73757245, "Coda"},   {0x20030528, "OrangeFS"},
    {0x01161970, "GFS2"},   {0x7461636f, "OCFS2"},  {0xaad7aaea, "PanFS"},
    {0x01021997, "9P"},     {0x0000564c, "NCP"},
};

const char *dir_network_name(unsigned long magic)
{
    for (size_t i = 0; i < sizeof(network) / sizeof(network[0]); i++)
        if (network[i].magic == (magic & 0xffffffff)) /* f_type is signed */
            return network[i].name;
    return NULL;
}

static int check(const char *dir, int fd, struct error *err)
{
    struct stat st;
    struct statfs fs;

    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
        return error_sys(err, errno, "'%s'", dir);
    if (st.st_uid != geteuid())
        return error_set(err, ERR_CONFIG,
                         "'%s' belongs to uid %lu, not to uid %lu", dir,
                         (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return error_set(err, ERR_CONFIG,
                         "'%s' is writable by others (mode %03o): chmod it "
                         "to 0700",
                         dir, (unsigned)(st.st_mode & 0777));
    const char *name = dir_network_name((unsigned long)fs.f_type);
    if (name)
        return error_set(err, ERR_CONFIG,
                         "'%s' is on %s: choose a directory on a local disk",
                         dir, name);
    return 0;
}

static void read_holder(int fd, char pid[16])
{
    ssize_t n = pread(fd, pid, 15, 0);
    pid[n > 0 ? n : 0] = '\0';
    pid[strspn(pid, "0123456789")] = '\0';
}

/* Names the holder if its process id can be read. */
static int say_locked(const char *dir, int fd, struct error *err)
{
    char pid[16];

    read_holder(fd, pid);
    return error_set(err, ERR_STATE,
                     "'%s' is in use by %s%s: stop that daemon, or name "
                     "another directory with --state-dir",
                     dir, pid[0] ? "process " : "another process", pid);
}

/* The lock belongs to the open file: a child that a daemon has forked shares it
 * until it executes its own program. If the daemon is killed right then, the
 * lock outlives it for that moment; wait, so that the next daemon is not
 * refused. */
enum { ORPHANED_MS = 10000, LOOK_MS = 5 };

static bool is_orphaned(int fd)
{
    char pid[16];

    read_holder(fd, pid);
    long n = strtol(pid, NULL, 10);
    return n > 1 && kill((pid_t)n, 0) < 0 && errno == ESRCH;
}

static int lock_file(int fd)
{
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc = fcntl(fd, F_OFD_SETLK, &all), e = errno;

    for (int ms = 0; rc < 0 && (e == EAGAIN || e == EACCES) &&
                     ms < ORPHANED_MS && is_orphaned(fd);
         ms += LOOK_MS) {
        (void)poll(NULL, 0, LOOK_MS);
        rc = fcntl(fd, F_OFD_SETLK, &all);
        e = errno;
    }
    errno = e;
    return rc;
}

static int lock(const char *dir, int dir_fd, int *ret_fd, struct error *err)
{
    int fd =
        openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_sys(err, errno, "'%s/lock'", dir);
    if (lock_file(fd) < 0) {
        if (errno == EAGAIN || errno == EACCES)
            (void)say_locked(dir, fd, err);
        else
            (void)error_sys(err, errno, "lock '%s/lock'", dir);
        close(fd);
        return -1;
    }
    char pid[16];
    int len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
    /* On a full disk only the name of the holder is missing. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, pid, (size_t)len, 0);
    *ret_fd = fd;
    return 0;
}

/* A new directory is durable once its parent is synced. */
static int create(const char *dir, struct error *err)
{
    if (mkdir(dir, 0700) < 0)
        return errno == EEXIST ? 0 : error_sys(err, errno, "create '%s'", dir);
    char parent[PATH_MAX];
    int n = snprintf(parent, sizeof(parent), "%s/..", dir);
    return n > 0 && (size_t)n < sizeof(parent)
               ? file_atomic_sync(parent, err)
               : error_set(err, ERR_CONFIG, "'%s' is too long", dir);
}

int dir_take(const char *dir, char **ret_path, int *ret_lock_fd,
             struct error *err)
{
    if (create(dir, err) < 0)
        return -1;
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
        return error_set(err, ERR_CONFIG,
                         "'%s' is a symbolic link or no directory", dir);
    if (fd < 0)
        return error_sys(err, errno, "'%s'", dir);
    int rc = check(dir, fd, err);
    char *path = NULL;
    if (rc == 0) {
        path = realpath(dir, NULL);
        rc = path ? 0 : error_sys(err, errno, "'%s'", dir);
    }
    if (rc == 0)
        rc = lock(dir, fd, ret_lock_fd, err);
    close(fd);
    if (rc < 0) {
        free(path);
        return -1;
    }
    *ret_path = path;
    return 0;
}
