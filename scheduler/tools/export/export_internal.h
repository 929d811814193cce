/* export_internal.h - functions that the formats of an export share. */
#ifndef MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_INTERNAL_H
#define MGPU_SCHEDULER_TOOLS_EXPORT_EXPORT_INTERNAL_H

#include <jansson.h>

#include "jobs/base/buf.h"
#include "scheduler/tools/common/client.h"

typedef int (*export_head_f)(void *arg, const json_t *columns,
                             struct error *err);
typedef int (*export_row_f)(void *arg, const json_t *reply, const json_t *row,
                            struct error *err);

/* Calls row() for each row of a view of all attempts, in order. `reply` has the
 * columns; *ret_job is set before the first call.
 * in   head  called once before the rows, also without any row; may be NULL */
int export_each(struct client *c, const char *word, const char *view,
                int64_t *ret_job, export_head_f head, export_row_f row,
                void *arg, struct error *err) MUST_CHECK;

#endif
