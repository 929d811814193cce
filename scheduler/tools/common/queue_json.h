/* queue_json.h - mgpu.queue/1 of many jobs, printed without a tree of them.
 *
 * A tree of a hundred thousand jobs takes 700 MB. Here each is read and
 * written by itself; what has to wait for older jobs, which stand before it and
 * come after it, waits in a file without a name.
 */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_JSON_H
#define MGPU_SCHEDULER_TOOLS_COMMON_QUEUE_JSON_H

#include <stdbool.h>
#include <stdio.h>

#include "jobs/base/error.h"

struct queue_json;

/* own  *ret  queue_json_free() */
int queue_json_create(struct queue_json **ret, struct error *err) MUST_CHECK;
/* The next part, as job_pages.h has it.
 * err  ERR_NOMEM; what the disk says */
int queue_json_part(void *queue, const char *head, size_t head_len,
                    const char *jobs, size_t jobs_len,
                    struct error *err) MUST_CHECK;
/* The document, as client_print() writes it, in one line. Nothing is written
 * before that, so that what fails leaves no half of one.
 * out  *ret_is_shown  false: the parts are not as the daemon writes them */
int queue_json_print(struct queue_json *q, FILE *out, bool *ret_is_shown,
                     struct error *err) MUST_CHECK;
void queue_json_free(struct queue_json *q); /* NULL is fine */

#endif
