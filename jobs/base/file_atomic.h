/* file_atomic.h - write a file so that its readers see the old one or all of
 * the new one, also after a crash.
 *
 * The bytes go to a temporary file beside it, which is synced and renamed; then
 * the directory is synced, which makes the new name durable. A call that fails
 * removes the temporary. One that a killed process left is replaced. */
#ifndef MGPU_BASE_FILE_ATOMIC_H
#define MGPU_BASE_FILE_ATOMIC_H

#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

enum {
    FILE_PUBLIC = 1,      /* mode 0666 less the umask; otherwise 0600 */
    FILE_NAME_CACHED = 2, /* the directory is not synced: after a crash of the
                           * machine the old file may be there again */
    FILE_CACHED = 4, /* nor is the file: it need not survive such a crash */
};

/* DIR/NAME of n bytes; the temporary is NAME.tmp. The calls for a whole file
 * allocate no memory.
 * in   dir    NULL: name is a path
 * err  as open(2), write(2), fsync(2) and rename(2); the old file stays, unless
 *      only the directory could not be synced */
int file_atomic_put(const char *dir, const char *name, const void *p, size_t n,
                    unsigned flags, struct error *err) MUST_CHECK;
/* The same, written over DIR/ROOM: if that file has n bytes or more, no space
 * on the disk is needed. The directory is not synced. ROOM is gone, also when
 * it fails. */
int file_atomic_put_over(const char *dir, const char *name, const char *room,
                         const void *p, size_t n, struct error *err) MUST_CHECK;
/* A new file under its own name, mode 0600, synced: for a directory that gets
 * its name later. The directory is not synced.
 * err  as open(2) with O_EXCL: a file that is there stays */
int file_atomic_create(const char *dir, const char *name, const void *p,
                       size_t n, struct error *err) MUST_CHECK;

/* Syncs a file, or the names in a directory. */
int file_atomic_sync(const char *path, struct error *err) MUST_CHECK;
/* Syncs the directory that has the name. */
int file_atomic_sync_parent(const char *path, struct error *err) MUST_CHECK;

/* ---- in steps, for several files that get their names together ------------
 */

struct file_atomic {
    int fd;               /* -1: closed */
    struct buf path, tmp; /* tmp is empty: nothing to remove */
};

#define FILE_ATOMIC_INIT \
    {                    \
        .fd = -1         \
    }

/* inout  f  FILE_ATOMIC_INIT; mode 0666 less the umask */
int file_atomic_open(struct file_atomic *f, const char *dir, const char *name,
                     struct error *err) MUST_CHECK;
int file_atomic_write(struct file_atomic *f, const void *p, size_t n,
                      struct error *err) MUST_CHECK;
/* Syncs and closes it. */
int file_atomic_close(struct file_atomic *f, struct error *err) MUST_CHECK;
/* Gives it its name. The directory is not synced. */
int file_atomic_rename(struct file_atomic *f, struct error *err) MUST_CHECK;
/* Removes a file that has no name yet; after file_atomic_rename() it only
 * frees. */
void file_atomic_clear(struct file_atomic *f);

#endif
