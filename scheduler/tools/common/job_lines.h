/* job_lines.h - lists line by line: --format jsonl and ids. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_JOB_LINES_H
#define MGPU_SCHEDULER_TOOLS_COMMON_JOB_LINES_H

#include <jansson.h>
#include <stdio.h>

#include "jobs/base/error.h"

/* Prints a document as lines of JSON on standard output, each with a schema of
 * its own: one line per element of a list, or per row of a table, with the
 * names of its columns; another document is one line.
 * err  ERR_NOMEM */
int lines_print(const json_t *reply, struct error *err) MUST_CHECK;

/* Prints one id per line: of mgpu.queue/1 the display ids of the jobs, of
 * mgpu.nodes/1 names, of mgpu.gpus/1 GPUs as "n1:0". */
void lines_ids(const json_t *reply, FILE *out);

#endif
