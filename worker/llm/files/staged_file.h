/* staged_file.h - a file that gets its name when it is complete.
 *
 * It is written as "NAME.tmp" beside its place, synced and renamed, so that a
 * reader never meets half of it, and one of that name stays until then.
 */
#ifndef MGPU_WORKER_LLM_FILES_STAGED_FILE_H
#define MGPU_WORKER_LLM_FILES_STAGED_FILE_H

#include <stddef.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct staged_file {
    int fd;               /* -1: closed */
    struct buf path, tmp; /* tmp is empty: nothing to remove */
};

#define STAGED_FILE_INIT \
    {                    \
        .fd = -1         \
    }

/* Creates it, in place of one that an earlier process left.
 * inout  f  STAGED_FILE_INIT */
int staged_file_create(struct staged_file *f, const char *dir, const char *name,
                       struct error *err) MUST_CHECK;
int staged_file_write(struct staged_file *f, const void *p, size_t n,
                      struct error *err) MUST_CHECK;
/* Syncs and closes it. */
int staged_file_close(struct staged_file *f, struct error *err) MUST_CHECK;
/* Gives it its name. The directory is not synced. */
int staged_file_rename(struct staged_file *f, struct error *err) MUST_CHECK;
/* Removes what has no name yet; after rename() it only frees. */
void staged_file_clear(struct staged_file *f);

/* Renames and removals in dir are durable. */
int staged_file_sync_dir(const char *dir, struct error *err) MUST_CHECK;

#endif
