/* privileges.h - a daemon that root starts and that serves everybody: what it
 * has to prepare while it is root, and how it stops being root. */
#ifndef MGPU_SCHEDULER_CTLD_STARTUP_PRIVILEGES_H
#define MGPU_SCHEDULER_CTLD_STARTUP_PRIVILEGES_H

#include <stddef.h>
#include <sys/types.h>

#include "jobs/base/error.h"
#include "jobs/conf/conf.h"

struct account {
    uid_t uid;
    gid_t gid;
    char name[256];
};

/* err  ERR_CONFIG no such account, or it is root */
int privileges_account(const char *name, struct account *ret,
                       struct error *err) MUST_CHECK;

/* A group of who's, for his socket.
 * err  ERR_CONFIG no such group, root's, or he is not in it */
int privileges_group(const char *name, const struct account *who,
                     int64_t *ret_gid, struct error *err) MUST_CHECK;

/* auth.admins as uids; root, who may do everything anyway, is left out.
 *
 * own  *ret: the caller frees; NULL when there is none
 * err  ERR_CONFIG no such account */
int privileges_admins(const struct conf *conf, int64_t **ret, size_t *ret_n,
                      struct error *err) MUST_CHECK;

/* A directory for `who`, who alone may write to it. What is missing is made:
 * the last part is who's, with `mode`, parents are root's, 0755.
 *
 * The way there must be safe: no part but the last may be anybody's but
 * root's or who's, or writable by others, unless it is sticky; a link must be
 * root's.
 *
 * in   path  absolute
 *      mode  0700, or 0755: then all may pass to it, and each part on the way
 *            must let them
 * out  ret   its path without links
 * err  ERR_CONFIG with the remedy */
int privileges_dir(const char *path, const struct account *who, mode_t mode,
                   char *ret, size_t cap, struct error *err) MUST_CHECK;

/* Whether users' directories are safe from each other at a path that has %u
 * for the user's name: as far as it is there, no directory before that part
 * may be anybody's but root's or who's, or writable by others unless it is
 * sticky. What root cannot look at (NFS) is left to who may.
 *
 * err  ERR_CONFIG with the directory */
int privileges_way(const char *path, const struct account *who,
                   struct error *err) MUST_CHECK;

/* What a daemon that is root believes: a file that only root may change.
 * err  ERR_CONFIG it is not; of open(2) */
int privileges_file(const char *path, struct error *err) MUST_CHECK;

/* Opens a log to append to. `who` makes it: its directory is his, so the name
 * of the file is his choice. The caller closes. */
int privileges_open_log(const char *path, const struct account *who,
                        int *ret_fd, struct error *err) MUST_CHECK;

/* Becomes who, with his groups, for good. Afterwards this process can neither
 * become anybody else, nor gain anything by exec(2), nor be looked into by
 * other processes of who.
 * err  ERR_DENIED it did not work: do not go on */
int privileges_become(const struct account *who, struct error *err) MUST_CHECK;

#endif
