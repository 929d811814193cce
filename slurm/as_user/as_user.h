/* as_user.h - what is done in a user's directory, done as that user.
 *
 * Each request is a process of its own, our own program run again with
 * "--as-user": it becomes the user for good before it touches a path, so a
 * directory that the user prepared can lead it nowhere that the user could
 * not go; and a file system that hangs is the trouble of that process. It is
 * started by posix_spawn(3), which is safe in a process with threads where
 * fork(2) is not; a fork server would be faster (2 ms), but one more process
 * with privileges that has to be kept alive.
 */
#ifndef MGPU_SLURM_AS_USER_AS_USER_H
#define MGPU_SLURM_AS_USER_AS_USER_H

#include <stdbool.h>
#include <sys/types.h>

#include "slurm/launch/attempt_dir.h"

struct as_user {
    gid_t gid;
    char name[64], home[512], shell[256];
};

/* Makes dir, if need be with its parents, all 0700, and replaces launch.json,
 * batch.json and submission there.
 *
 * Refused is a directory that is not the user's, or a link, and anything in
 * a world-writable directory on the way that belongs to somebody else: who
 * owns it could put another batch.json in place of ours.
 *
 * err  ERR_INVAL no such user;  ERR_DENIED;  ERR_TIMEOUT the file system
 *      does not answer;  ERR_BUSY it did not answer this user before;
 *      others as the calls say. The files are then as before or new, each
 *      as a whole.
 */
int as_user_write(uid_t uid, const char *dir, const char *launch,
                  const char *batch, const char *submission,
                  struct as_user *ret, struct error *err) MUST_CHECK;

/* As attempt_exit_read(), without `submission`. */
int as_user_read_exit(uid_t uid, const char *dir, struct attempt_exit *ret,
                      struct error *err) MUST_CHECK;

/* The other side: main() calls it first, and returns *ret if it is true. */
bool as_user_main(int argc, char **argv, int *ret);

#endif
