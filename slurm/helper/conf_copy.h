/* conf_copy.h - a private copy of slurm.conf with our own MessageTimeout.
 *
 * Only MessageTimeout in the client's slurm.conf limits how long a call of
 * libslurm waits (measured with 22.05). The copy lives in memory, as a path
 * below /proc/self/fd, so that no file is left behind when a process dies.
 * Relative "Include" lines refer to files next to the original. */
#ifndef MGPU_SLURM_HELPER_CONF_COPY_H
#define MGPU_SLURM_HELPER_CONF_COPY_H

#include "jobs/base/buf.h"

/* in   dir  of the original */
int conf_copy_text(const char *text, const char *dir, int timeout_s,
                   struct buf *out, struct error *err) MUST_CHECK;
/* out  ret_fd  the copy; the caller closes it, children inherit it
 * err  ERR_CONFIG a relative path; else as open(2) and read(2) say */
int conf_copy(const char *path, int timeout_s, int *ret_fd,
              struct error *err) MUST_CHECK;

#endif
