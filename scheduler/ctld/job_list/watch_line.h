/* watch_line.h - the lines of GET /v1/watch as text. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_LINE_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_WATCH_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "scheduler/ctld/ctld_internal.h"
#include "scheduler/ctld/job_list/watch_past.h"

/* A line of the job. in  all  with what only its user may see
 * own  the caller frees it; NULL: no memory */
char *watch_line_job(const struct ctld *c, const struct watch_past *past,
                     const struct job *job, bool all);

/* Appends up to n lines of jobs, as the user uid may see them.
 * in   after     the jobs behind this one
 * out  ret_last  the last of them; unchanged when there are none
 * ret  false: no memory */
bool watch_line_add_jobs(const struct ctld *c, const struct watch_past *past,
                         uint64_t after, int n, int64_t uid, struct buf *text,
                         uint64_t *ret_last);

/* The mark: the client has all changes up to this one.
 * in   is_whole  its stream began with all jobs
 * ret  the length */
enum { WATCH_MARK_CAP = 80 + WATCH_CURSOR_CAP };
size_t watch_line_mark(const struct watch_past *past, int64_t change,
                       bool is_whole, char ret[WATCH_MARK_CAP]);

#endif
