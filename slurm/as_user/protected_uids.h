/* protected_uids.h - accounts that a privileged helper never acts for, besides
 * root.
 *
 * A compromised daemon may request a job, or a file, of any user. Two accounts
 * are as powerful as root: SlurmUser, which may do everything in Slurm,
 * including starting a job as root; and the account that runs munged, whose key
 * authenticates every user. */
#ifndef MGPU_SLURM_AS_USER_PROTECTED_UIDS_H
#define MGPU_SLURM_AS_USER_PROTECTED_UIDS_H

#include <sys/types.h>

#include "jobs/base/error.h"

/* Reads slurm.conf and its includes each time: they may change.
 *
 * in   slurm_conf  absolute
 * err  ERR_DENIED uid is one of them; ERR_UNAVAIL that cannot be determined, so
 *      uid is refused */
int protected_uids_check(const char *slurm_conf, uid_t uid,
                         struct error *err) MUST_CHECK;

/* A line's value as Slurm reads it: keys in any case, comments, quotes,
 * continued lines, Include; the last one counts.
 *
 * out  ret  "" if the file has no such key
 * err  ERR_IO, .. a file cannot be read; ERR_CONFIG endless includes, a value
 *      that is too long */
int protected_uids_conf_value(const char *slurm_conf, const char *key,
                              char *ret, size_t cap,
                              struct error *err) MUST_CHECK;

#endif
