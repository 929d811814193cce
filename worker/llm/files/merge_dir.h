/* merge_dir.h - a directory that gets its name when all of it is written. */
#ifndef MGPU_WORKER_LLM_FILES_MERGE_DIR_H
#define MGPU_WORKER_LLM_FILES_MERGE_DIR_H

#include <stdbool.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"

struct merge_dir {
    struct buf out, partial;
    bool is_made; /* partial is there, and ours */
};

#define MERGE_DIR_INIT   \
    {                    \
        .is_made = false \
    }

/* Makes "OUT.partial".
 * inout  d  MERGE_DIR_INIT
 * err  ERR_STATE OUT has files, or OUT.partial is there; ERR_IO */
int merge_dir_create(struct merge_dir *d, const char *out,
                     struct error *err) MUST_CHECK;
/* Makes the config.json of a directory say that the output layer has weights
 * of its own. */
int merge_dir_untie(const char *dir, struct error *err) MUST_CHECK;
/* Gives it its name. */
int merge_dir_finish(struct merge_dir *d, struct error *err) MUST_CHECK;
/* Removes what has no name yet. */
void merge_dir_clear(struct merge_dir *d);

#endif
