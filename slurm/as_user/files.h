/* files.h - reading a job's files with their owner's identity.
 *
 * In system mode the daemon is an unprivileged user, and only its owner can
 * read a job's files: mgpu-slurm-helper reads them as the user. The helper
 * returns bytes, not descriptors, so that a file system that hangs blocks only
 * the process that reads for this one user; the daemon has a deadline. A daemon
 * whose user owns the files reads them itself.
 *
 * dir is an attempt's directory, absolute, .../<job>/<attempt>. Symbolic links
 * on the way to it are followed: sites use them, and the reader has no more
 * rights than the user. The files themselves must be regular files, not
 * links. */
#ifndef MGPU_SLURM_AS_USER_FILES_H
#define MGPU_SLURM_AS_USER_FILES_H

#include <stdint.h>
#include <sys/types.h>

#include "jobs/base/error.h"

struct files;

/* Both may be called from several threads.
 *
 * err  ERR_NOTFOUND there is none; ERR_DENIED; ERR_INVAL a bad name, or not a
 *      regular file; ERR_TIMEOUT the file system does not answer; ERR_UNAVAIL
 *      the helper has exited; ERR_NOMEM, ERR_BUSY, ERR_LIMIT (descriptors,
 *      processes) may pass; ERR_IO the rest */
struct files_ops {
    /* Reads up to cap bytes of report.json, times (jobs/log/log_times.h),
     * spool.<rank>, metrics.<rank>.jsonl or metrics.<rank>.read, from offset
     * on.
     * out  ret_n  0: the end; less than cap does not mean the end */
    int (*read)(struct files *f, uid_t uid, const char *dir, const char *name,
                uint64_t offset, void *p, size_t cap, size_t *ret_n,
                struct error *err);
    /* bounded_log_read() (jobs/log/bounded_log.h has the words) */
    int (*log)(struct files *f, uid_t uid, const char *dir, uint64_t *io_offset,
               void *p, size_t cap, size_t *ret_n, uint64_t *ret_dropped,
               struct error *err);
    void (*destroy)(struct files *f); /* NULL is fine */
};

struct files {
    const struct files_ops *ops;
};

/* Reads with our own identity, whatever uid says. */
int files_direct_create(struct files **ret, struct error *err) MUST_CHECK;
/* Reads through the helper's second socket (SOCK_SEQPACKET), which it owns from
 * now on. */
int files_helper_create(int fd, struct files **ret,
                        struct error *err) MUST_CHECK;

/* Users whose files the other end reads. OWN: its own uid's only; USERS: those
 * of every user, by becoming that user (it must be root), except root's and
 * those of protected_uids.h; ALL: root's as well. */
enum files_whom { FILES_OWN, FILES_USERS, FILES_ALL };

/* The other end: serves until the socket closes. The process does nothing else,
 * has one thread, and exits with the returned status.
 * in   slurm_conf  for FILES_USERS: the accounts to refuse (protected_uids.h);
 *                  NULL where there is no Slurm */
int files_serve(int fd, enum files_whom whom, const char *slurm_conf);

#endif
