/* token_lock.h - the lock of the process that tokenises rows for others, and
 * its progress.
 *
 * The lock is of the whole file, so that it ends with the process that holds
 * it. The holder writes into the file what share it has done; those that wait
 * for the lock read it there. */
#ifndef MGPU_WORKER_DATA_CACHE_TOKEN_LOCK_H
#define MGPU_WORKER_DATA_CACHE_TOKEN_LOCK_H

#include <stdbool.h>

#include "jobs/base/error.h"

/* Creates the file if there is none. The file of another user is refused: its
 * owner could hold the lock for ever.
 * err  ERR_DENIED neither this user's nor root's; ERR_INVAL no regular file; as
 *      open(2)
 * Returns a descriptor. */
int token_lock_open(const char *path, struct error *err) MUST_CHECK;

/* Returns 0: held; 1: another holds it; -1: errno says why. Never waits. */
int token_lock_try(int fd);

/* The lock file was removed: the holder of the lock wants no successor. */
bool token_lock_is_gone(int fd);

/* Writes the holder's share, from 0 to 1. A share that cannot be written is
 * left out. */
void token_lock_tell(int fd, double share);
/* The share that the holder wrote; NAN: none. */
double token_lock_told(int fd);

#endif
