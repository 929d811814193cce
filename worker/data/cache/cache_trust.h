/* cache_trust.h - which files of tokenised rows a job may trust.
 *
 * A job trains on what such a file says, and the file lies beside the data,
 * where every user may be able to create files. So the file and its directory
 * must belong to this user, to root, or to the owner of the data, who could as
 * well change the data, and no other user may write to them. Only owners and
 * permissions are checked here; token_file.h checks the content. */
#ifndef MGPU_WORKER_DATA_CACHE_CACHE_TRUST_H
#define MGPU_WORKER_DATA_CACHE_CACHE_TRUST_H

#include <stdbool.h>
#include <sys/stat.h>

#include "worker/data/rows/data_rows.h"

struct cache_trust {
    uid_t self;
    bool has_owner;
    uid_t owner; /* of all files of the data */
};

/* Files of several owners have none, nor has a file whose owner has no number
 * here (user_namespaces(7)): two such owners look the same. */
struct cache_trust cache_trust_of(const struct data_files *files);

/* err  ERR_DENIED "'path' ...": names the owner, or who may write to it */
int cache_trust_check(const struct cache_trust *t, const char *path,
                      const struct stat *st, struct error *err) MUST_CHECK;

/* Checks a directory in the same way, and the symbolic link that leads to it.
 * out  ret_is_own  it is this user's, who may write to it: files of others are
 *                  never replaced, not even by root
 * err  ERR_DENIED; ERR_INVAL no directory; as stat(2) */
int cache_trust_dir(const struct cache_trust *t, const char *path,
                    bool *ret_is_own, struct error *err) MUST_CHECK;

#endif
