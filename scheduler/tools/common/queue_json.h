/* queue_json.h - print mgpu.queue/1 of many jobs without a JSON tree of all of
 * them.
 *
 * A tree of a hundred thousand jobs takes 700 MB. This code reads and writes
 * each job separately. Pages come newest first, but the document is oldest
 * first, so earlier pages wait in an unnamed file.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_JSON_H
#define MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "jobs/base/error.h"

struct queue_json;

/* own  *ret  queue_json_free() */
int queue_json_create(struct queue_json **ret, struct error *err) MUST_CHECK;
/* Adds the next page, see job_pages.h.
 * err  ERR_NOMEM; errors of the file */
int queue_json_part(void *queue, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len,
                    struct error *err) MUST_CHECK;
/* Prints the document in one line, as client_print() does. Nothing is written
 * before, so that a failure leaves no partial document.
 * out  *ret_is_shown  false: the pages are not in the daemon's format */
int queue_json_print(struct queue_json *q, FILE *out, bool *ret_is_shown,
                     struct error *err) MUST_CHECK;
void queue_json_free(struct queue_json *q); /* NULL is fine */

#endif
