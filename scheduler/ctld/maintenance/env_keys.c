/* env_keys.c - see env_keys.h. */
#include "scheduler/ctld/maintenance/env_keys.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/ctld/startup/paths.h"
#include "scheduler/ctld/startup/token_secret.h"

_Static_assert((int)SEAL_KEY_BYTES == (int)SECRET_BYTES, "one kind of file");

static int path_of(const struct keys *k, const char *name, char ret[1024],
                   struct error *err)
{
    int n = snprintf(ret, 1024, "%s/%s", k->dir, name);
    return n > 0 && n < 1024
               ? 0
               : error_set(err, ERR_CONFIG, "'%s' is too long", k->dir);
}

int keys_open(const char *state_dir, struct keys *ret, struct error *err)
{
    struct keys k = {.dir = ""};
    char path[1024];
    int n = snprintf(k.dir, sizeof(k.dir), "%s/keys", state_dir);
    if (n < 0 || (size_t)n >= sizeof(k.dir))
        return error_set(err, ERR_CONFIG, "'%s' is too long", state_dir);
    if (paths_private_dir(k.dir, err) < 0 ||
        path_of(&k, "digest", path, err) < 0)
        return -1;
    int rc = secret_ensure(k.dir, path, k.digest, err);
    if (rc == 0)
        *ret = k;
    keys_clear(&k);
    return rc;
}

void keys_clear(struct keys *k)
{
    explicit_bzero(k->digest, sizeof(k->digest));
}

int keys_create(const struct keys *k, const char id[SEAL_ID_CAP],
                unsigned char ret[SEAL_KEY_BYTES], struct error *err)
{
    char path[1024];
    return path_of(k, id, path, err) == 0
               ? secret_create(k->dir, path, ret, err)
               : -1;
}

int keys_read(const struct keys *k, const char id[SEAL_ID_CAP],
              unsigned char ret[SEAL_KEY_BYTES], struct error *err)
{
    char path[1024];
    return path_of(k, id, path, err) == 0 ? secret_read(path, ret, err) : -1;
}

/* "<id>" or "<id>.new"; false: nothing of ours. */
static bool id_of(const char *name, char ret[SEAL_ID_CAP])
{
    const char *rest = name + strnlen(name, SEAL_ID_CAP - 1);
    if (*rest && strcmp(rest, ".new") != 0)
        return false;
    (void)snprintf(ret, SEAL_ID_CAP, "%.*s", SEAL_ID_CAP - 1, name);
    return seal_is_id(ret);
}

int keys_keep(const struct keys *k, bool (*is_used)(void *arg, const char *id),
              void *arg, struct error *err)
{
    DIR *d = opendir(k->dir);
    const struct dirent *e;
    int rc = 0;
    if (!d)
        return error_sys(err, errno, "open '%s'", k->dir);
    while ((e = readdir(d)) != NULL) {
        char id[SEAL_ID_CAP];
        if (id_of(e->d_name, id) && !is_used(arg, id) &&
            unlinkat(dirfd(d), e->d_name, 0) < 0 && errno != ENOENT)
            rc = error_sys(err, errno, "remove '%s/%s'", k->dir, e->d_name);
    }
    (void)closedir(d);
    return rc;
}
