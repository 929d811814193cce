/* shm_dir.h - a place in shared memory that no killed process leaves behind.
 *
 * Ranks of one machine share files in /dev/shm. Who made them removes them, or
 * his launcher does; when both are killed they take memory until the machine
 * starts again. So each process has a directory of its own there, and holds a
 * lock on it, which ends with the process however that ends: what is not
 * locked may be removed by anybody of the same user.
 */
#ifndef MGPU_JOBS_LOG_SHM_DIR_H
#define MGPU_JOBS_LOG_SHM_DIR_H

#include "jobs/base/error.h"

#define SHM_DIR_BASE "/dev/shm"

struct shm_dir {
    int fd; /* with the lock; -1: there is none */
    char path[96];
};

/* in   base  an absolute directory of at most 60 bytes
 * own  *ret: shm_dir_remove(); nothing is lost without
 * err  ERR_IO and what errno says */
int shm_dir_make(const char *base, struct shm_dir *ret,
                 struct error *err) MUST_CHECK;
/* With the files in it; one without a directory is fine. */
void shm_dir_remove(struct shm_dir *d);

/* Removes those of this user whose process is no more. Returns how many. */
int shm_dir_sweep(const char *base);

#endif
