/* schema_dir.c - see schema_dir.h. */
#include "jobs/schema/schema_dir.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs/base/buf.h"

int schema_dir_of(const char *file, char **ret, struct error *err)
{
    if (!file)
        return 0;
    struct buf b = BUF_INIT;
    const char *slash = strrchr(file, '/');
    int rc = 0;
    if (*file != '/') {
        char *cwd = getcwd(NULL, 0);
        if (!cwd && errno == ENOENT)
            return error_set(err, ERR_NOTFOUND,
                             "the working directory has been removed: change "
                             "to one that exists");
        if (!cwd)
            return error_sys(err, errno, "current directory");
        rc = buf_addf(&b, err, "%s/", strcmp(cwd, "/") == 0 ? "" : cwd);
        free(cwd);
    }
    if (rc == 0 && slash)
        rc = buf_add(&b, file, (size_t)(slash - file + 1), err);
    /* One slash at the end suffices, and schema_set() adds it. */
    while (rc == 0 && b.len > 1 && b.data[b.len - 1] == '/')
        b.data[--b.len] = '\0';
    if (rc == 0 && !(*ret = buf_detach(&b)))
        rc = error_set(err, ERR_NOMEM, "directory of '%s'", file);
    buf_clear(&b);
    return rc;
}

int schema_dir_typed(char **ret, struct error *err)
{
    struct error why = ERROR_INIT;
    if (schema_dir_of("option", ret, &why) == 0 || why.code == ERR_NOTFOUND)
        return 0;
    return error_set(err, why.code, "%s", why.msg);
}
