/* shm_dir.h - a directory in shared memory that is removed even after a kill.
 *
 * Ranks of one machine share files in /dev/shm. The creating process removes
 * them, or its launcher does; if both were killed, the files would occupy
 * memory until the machine reboots. So each process has a directory of its own
 * there and holds a lock on it, which the kernel releases when the process
 * ends. Any process of the same user may remove a directory that is not
 * locked. */
#ifndef MGPU_JOBS_LOG_SHM_DIR_H
#define MGPU_JOBS_LOG_SHM_DIR_H

#include "jobs/base/error.h"

#define SHM_DIR_BASE "/dev/shm"

struct shm_dir {
    int fd; /* with the lock; -1: none */
    char path[96];
};

/* in   base  an absolute directory of at most 60 bytes
 * own  *ret: shm_dir_remove(); without the call a later sweep removes it
 * err  ERR_IO and the text of errno */
int shm_dir_make(const char *base, struct shm_dir *ret,
                 struct error *err) MUST_CHECK;
/* With its files; no effect without a directory. */
void shm_dir_remove(struct shm_dir *d);

/* Removes this user's directories whose process has ended. Returns how many. */
int shm_dir_sweep(const char *base);

#endif
