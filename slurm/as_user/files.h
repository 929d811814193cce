/* files.h - a job's files, read as their owner.
 *
 * In system mode the daemon is nobody in particular, and jobs' files are
 * their users' alone: mgpu-slurm-helper reads them as the user. What crosses
 * is bytes, not descriptors, so that a file system that hangs keeps nobody
 * waiting but the process that reads for this one user; the daemon has a
 * deadline. A daemon whose user owns the files reads them itself.
 *
 * dir is an attempt's directory, absolute, .../<job>/<attempt>. Links on the
 * way to it are followed: sites have them, and who reads has no more rights
 * than the user. The files themselves are never reached through a link, and
 * only regular ones are read.
 */
#ifndef MGPU_SLURM_AS_USER_FILES_H
#define MGPU_SLURM_AS_USER_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct files;

/* Both may be called from several threads.
 *
 * err  ERR_NOTFOUND there is none; ERR_DENIED; ERR_INVAL a bad name, or not
 *      a regular file; ERR_TIMEOUT the file system does not answer;
 *      ERR_UNAVAIL the helper is gone; ERR_NOMEM, ERR_BUSY, ERR_LIMIT
 *      (descriptors, processes) may pass; ERR_IO the rest
 */
struct files_ops {
    /* Up to cap bytes of report.json, times (jobs/log/log_times.h) or a
     * spool.<rank>, from offset on.
     * out  ret_n  0: that is all; less than cap says nothing */
    int (*read)(struct files *f, uid_t uid, const char *dir, const char *name,
                uint64_t offset, void *p, size_t cap, size_t *ret_n,
                struct error *err);
    /* joblog_read() (jobs/log/bounded_log.h has the words) */
    int (*log)(struct files *f, uid_t uid, const char *dir, uint64_t *io_offset,
               void *p, size_t cap, size_t *ret_n, uint64_t *ret_dropped,
               struct error *err);
    void (*destroy)(struct files *f); /* NULL is fine */
};

struct files {
    const struct files_ops *ops;
};

/* As ourselves, whatever uid says. */
int files_direct_create(struct files **ret, struct error *err) MUST_CHECK;
/* Through the helper's second socket (SOCK_SEQPACKET), which is owned from
 * here on. */
int files_helper_create(int fd, struct files **ret,
                        struct error *err) MUST_CHECK;

/* Whose files the other end reads: its own uid's only; every user's, by
 * becoming that user (it must be root), but root's and those of
 * protected_uids.h; root's as well. */
enum files_whom { FILES_OWN, FILES_USERS, FILES_ALL };

/* The other end: serves until the socket closes. The process does nothing
 * else, has one thread, and exits with what this returns.
 * in   slurm_conf  for FILES_USERS: says whom not to serve (protected_uids.h);
 *                  NULL where there is no Slurm */
int files_serve(int fd, enum files_whom whom, const char *slurm_conf);

#endif
