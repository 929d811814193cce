/* schema_dir.h - the directories that relative paths begin in. */
#ifndef MGPU_JOBS_SCHEMA_SCHEMA_DIR_H
#define MGPU_JOBS_SCHEMA_SCHEMA_DIR_H

#include "jobs/base/error.h"

/* The absolute directory of a file; *ret stays NULL when file is NULL. The
 * caller frees with free().
 * err  ERR_NOTFOUND the working directory has been removed, and the file is
 *      relative to it; ERR_NOMEM */
int schema_dir_of(const char *file, char **ret, struct error *err) MUST_CHECK;

/* The directory that paths of options are relative to. *ret stays NULL where it
 * has been removed, so that such a path is refused, at its place.
 * err  ERR_NOMEM */
int schema_dir_typed(char **ret, struct error *err) MUST_CHECK;

#endif
