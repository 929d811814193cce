/* files.h - a job's files, opened as their owner.
 *
 * In system mode the daemon is nobody in particular, and jobs' files are
 * their users' alone: mgpu-slurm-helper opens one as the user and passes the
 * descriptor. Otherwise the daemon's user owns them all and opens them itself.
 *
 * Names never have a '/', links are never followed, and only regular files
 * (or the directory itself) are opened, for reading.
 */
#ifndef MGPU_SLURM_FILES_H
#define MGPU_SLURM_FILES_H

#include <sys/types.h>

#include "jobs/base/error.h"

struct files;

struct files_ops {
    /* in   dir   absolute
     *      name  a file in it; "." is the directory, for its entries
     * out  ret_fd  the caller closes it; O_CLOEXEC
     * err  ERR_NOTFOUND, ERR_DENIED, ERR_TIMEOUT, ERR_INVAL a bad name.
     * May be called from several threads. */
    int (*open)(struct files *f, uid_t uid, const char *dir, const char *name,
                int *ret_fd, struct error *err);
    void (*destroy)(struct files *f); /* NULL is fine */
};

struct files {
    const struct files_ops *ops;
};

/* As ourselves, whatever uid says. */
int files_direct_create(struct files **ret, struct error *err) MUST_CHECK;
/* Through the helper's second socket, which is owned from here on. */
int files_helper_create(int fd, struct files **ret,
                        struct error *err) MUST_CHECK;
/* The other end: serves until the socket closes; single-threaded, root or
 * not. Returns the exit status of the process that does nothing else. */
int files_serve(int fd);

#endif
