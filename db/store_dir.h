/* store_dir.h - check and lock the directory of a database. */
#ifndef MGPU_DB_STORE_DIR_H
#define MGPU_DB_STORE_DIR_H

#include "jobs/base/error.h"

/* Opens `dir`, creating it 0700 if it is missing, checks it and takes its lock,
 * which lasts until ret_lock_fd is closed.
 *
 * out  ret_path     the directory without symbolic links
 *      ret_lock_fd  close it to release the directory
 * own  ret_path: the caller frees it
 * err  ERR_STATE locked by another process or store; ERR_CONFIG a symbolic
 *      link, another owner, writable by others, or a network file system */
int dir_take(const char *dir, char **ret_path, int *ret_lock_fd,
             struct error *err) MUST_CHECK;

/* The name of a file system type (statfs(2)) that several hosts share; NULL for
 * a local one. WAL needs shared memory, which is local to a host. */
const char *dir_network_name(unsigned long magic);

#endif
