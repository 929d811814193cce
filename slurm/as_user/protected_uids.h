/* protected_uids.h - accounts that the helper of a system never acts for,
 * besides root.
 *
 * A daemon that was taken over may ask for a job, or a file, of anybody. Two
 * accounts are worth as much as root: SlurmUser, who may do everything in
 * Slurm, also start a job as root; and whoever runs munged, whose key says
 * who anybody is.
 */
#ifndef MGPU_SLURM_AS_USER_PROTECTED_UIDS_H
#define MGPU_SLURM_AS_USER_PROTECTED_UIDS_H

#include <sys/types.h>

#include "jobs/base/error.h"

/* Reads slurm.conf and what it includes each time: it may change.
 *
 * in   slurm_conf  absolute
 * err  ERR_DENIED uid is one of them; ERR_UNAVAIL it cannot be told, so no
 */
int guard_check(const char *slurm_conf, uid_t uid,
                struct error *err) MUST_CHECK;

/* A line's value as Slurm reads it: keys in any case, comments, quotes,
 * continued lines, Include; the last one counts.
 *
 * out  ret  "" when the file has no such key
 * err  ERR_IO, .. a file cannot be read; ERR_CONFIG includes without end, a
 *      value that is too long
 */
int guard_conf_value(const char *slurm_conf, const char *key, char *ret,
                     size_t cap, struct error *err) MUST_CHECK;

#endif
