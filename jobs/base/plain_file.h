/* plain_file.h - open a regular file for reading; the only place of the tree
 * that opens a file that somebody else may have put there.
 *
 * A FIFO would block its reader, /dev/zero never ends, and to open a device may
 * do something. All of them are refused by name, at once. So is a pointer of
 * git-lfs, which each reader would call a damaged file. */
#ifndef MGPU_BASE_PLAIN_FILE_H
#define MGPU_BASE_PLAIN_FILE_H

#include <sys/stat.h>

#include "jobs/base/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* in   flags  0, or O_NOFOLLOW: the last part of the path is no symbolic link
 * out  ret    of the file; NULL is fine
 * err  ERR_INVAL "'path' is not a regular file", or a pointer of git-lfs; else
 *      as open(2)
 * Returns a descriptor, which is not inherited. */
int plain_file_open(const char *path, int flags, struct stat *ret,
                    struct error *err) MUST_CHECK;
/* The same below a directory, as openat(2). */
int plain_file_open_at(int dir, const char *path, int flags, struct stat *ret,
                       struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif
#endif
