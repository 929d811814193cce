/* as_user.h - write and read files in a user's directory with that user's
 * identity.
 *
 * Each request runs in its own process, our own program started again with
 * "--as-user". It permanently becomes the user before it opens a path, so a
 * directory that the user prepared cannot lead it where the user could not go;
 * and a file system that hangs blocks only that process. posix_spawn(3) starts
 * it, which is safe in a process with threads where fork(2) is not. A fork
 * server would be faster (2 ms), but it would be one more privileged process to
 * keep running. */
#ifndef MGPU_SLURM_AS_USER_AS_USER_H
#define MGPU_SLURM_AS_USER_AS_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "slurm/launch/attempt_dir.h"

struct as_user {
    gid_t gid;
    char name[64], home[512], shell[256];
};

/* Creates dir and missing parents, all 0700, and replaces launch.json,
 * batch.json and submission there.
 *
 * It refuses a directory that is not the user's, or a symbolic link, and any
 * component in a world-writable directory that another user owns: its owner
 * could replace our batch.json.
 *
 * err  ERR_INVAL no such user;  ERR_DENIED;  ERR_TIMEOUT the file system does
 *      not answer;  ERR_BUSY it did not answer an earlier request of this user;
 *      others as the calls say. Each file is then either the old or the new
 *      one, complete. */
int as_user_write(uid_t uid, const char *dir, const char *launch,
                  const char *batch, const char *submission,
                  struct as_user *ret, struct error *err) MUST_CHECK;

/* As attempt_exit_read(), without `submission`. */
int as_user_read_exit(uid_t uid, const char *dir, struct attempt_exit *ret,
                      struct error *err) MUST_CHECK;

/* The child's side: main() calls it first, and returns *ret if it is true. */
bool as_user_main(int argc, char **argv, int *ret);

#endif
