/* names_kept.h - names of a job that replace those of its submit. */
#ifndef MGPU_SCHEDULER_ENGINE_EVENTS_NAMES_KEPT_H
#define MGPU_SCHEDULER_ENGINE_EVENTS_NAMES_KEPT_H

#include "jobs/base/error.h"

/* A list with the newest first. The job points to the names, and so does each
 * copy of it from before a batch: a name stays until the job leaves memory, or
 * until the batch that brought it is undone. */
struct name_kept {
    struct name_kept *older;
    char text[];
};

/* Makes *io_name a copy of the name, which the list owns; "" leaves it as it
 * is. err  ERR_NOMEM */
int names_kept_set(struct name_kept **io, const char *name,
                   const char **io_name, struct error *err) MUST_CHECK;
/* Frees the names that are newer than `until`; NULL: all. */
void names_kept_drop(struct name_kept **io, const struct name_kept *until);

#endif
