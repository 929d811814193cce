/* row_pages.h - read all rows of a view of a job, page by page. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_ROW_PAGES_H
#define MGPU_SCHEDULER_TOOLS_COMMON_ROW_PAGES_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/tools/common/client.h"

/* Takes the first n rows of a reply: what follows comes again with the next
 * page. */
typedef int (*row_page_f)(void *arg, const json_t *reply, size_t n,
                          struct error *err);

/* Calls page() for each page of a view ("iterations", "epochs", "values",
 * "profile"), attempt by attempt, at least once.
 * out  *ret_job  set before the first call */
int row_pages(struct client *c, const char *word, const char *view,
              int64_t *ret_job, row_page_f page, void *arg,
              struct error *err) MUST_CHECK;

#endif
