/* dir_owner.h - which job owns a directory of results or checkpoints.
 *
 * It belongs to one job over all of its attempts. The first of them leaves
 * DIR_OWNER_FILE there: the job's id, drawn at its submit, and for people its
 * number, cluster, host and time; and the job's specification, which
 * train.resume_from compares. The file is written under another name and made
 * by link(2), so that of two jobs one has it, and whole.
 *
 * A directory that has checkpoints, but no such file, is another job's.
 */
#ifndef MGPU_WORKER_CHECKPOINT_DIR_OWNER_H
#define MGPU_WORKER_CHECKPOINT_DIR_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct dir_owner {
    const char *id; /* "": of a job that was submitted before there were any */
    const char *cluster; /* "": there is no daemon */
    uint64_t job;
    const char *spec; /* JSON */
};

/* Makes the directory, which exists, the job's. One without an id takes what
 * has no owner, and leaves it so.
 * err  ERR_STATE it is another job's: whose, and what to do; ERR_INVAL the file
 *      is damaged; ERR_IO, ERR_DENIED, ERR_NOMEM */
int dir_owner_take(const char *dir, const struct dir_owner *o,
                   struct error *err) MUST_CHECK;

/* The id of a run without a daemon: that of its directory, drawn once. */
enum { DIR_OWNER_ID_CAP = 33 };
int dir_owner_of_run(const char *dir, char ret[DIR_OWNER_ID_CAP],
                     struct error *err) MUST_CHECK;

/* Appends the specification of the owner.
 * err  ERR_NOTFOUND the directory has none; else as dir_owner_take() */
int dir_owner_spec(const char *dir, struct buf *ret,
                   struct error *err) MUST_CHECK;

/* Whether it has checkpoints, the best one included. */
int dir_owner_has_checkpoints(const char *dir, bool *ret,
                              struct error *err) MUST_CHECK;

#endif
