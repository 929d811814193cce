/* cache_trust.c - see cache_trust.h. */
#include "worker/data/cache/cache_trust.h"

#include <errno.h>
#include <unistd.h>

/* The kernel shows this uid for a user without a number in this namespace: the
 * default of sysctl kernel.overflowuid, which sites leave as it is. */
enum { OVERFLOW_UID = 65534 };

struct cache_trust cache_trust_of(const struct data_files *files)
{
    struct cache_trust t = {.self = geteuid(), .has_owner = files->n > 0};
    for (int32_t i = 0; i < files->n && t.has_owner; i++) {
        struct stat st;
        t.has_owner = stat(files->path[i], &st) == 0 &&
                      st.st_uid != OVERFLOW_UID &&
                      (i == 0 || st.st_uid == t.owner);
        t.owner = t.has_owner ? st.st_uid : 0;
    }
    return t;
}

static int check_owner(const struct cache_trust *t, const char *path, uid_t uid,
                       struct error *err)
{
    if (uid == t->self || uid == 0 || (t->has_owner && uid == t->owner))
        return 0;
    return error_set(err, ERR_DENIED,
                     "'%s' belongs to uid %lld, who is neither this user nor "
                     "root nor the owner of the data",
                     path, (long long)uid);
}

int cache_trust_check(const struct cache_trust *t, const char *path,
                      const struct stat *st, struct error *err)
{
    if (check_owner(t, path, st->st_uid, err) < 0)
        return -1;
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) == 0)
        return 0;
    return error_set(err, ERR_DENIED,
                     "others than its owner may write to '%s': chmod go-w",
                     path);
}

int cache_trust_dir(const struct cache_trust *t, const char *path,
                    bool *ret_is_own, struct error *err)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return error_sys(err, errno, "'%s'", path);
    if (S_ISLNK(st.st_mode)) {
        if (check_owner(t, path, st.st_uid, err) < 0)
            return -1;
        if (stat(path, &st) < 0)
            return error_sys(err, errno, "'%s'", path);
    }
    if (!S_ISDIR(st.st_mode))
        return error_set(err, ERR_INVAL, "'%s' is not a directory", path);
    if (cache_trust_check(t, path, &st, err) < 0)
        return -1;
    *ret_is_own = st.st_uid == t->self && access(path, W_OK) == 0;
    return 0;
}
