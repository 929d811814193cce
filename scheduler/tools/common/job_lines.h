/* job_lines.h - what a list has, line by line: --jsonl and --parsable. */
#ifndef MGPU_SCHEDULER_TOOLS_COMMON_JOB_LINES_H
#define MGPU_SCHEDULER_TOOLS_COMMON_JOB_LINES_H

#include <jansson.h>
#include <stdio.h>

#include "jobs/base/error.h"

/* A document as lines of JSON on standard output, each with a schema of its
 * own: of a list an element each, of a table a row each, with its columns'
 * names; what is no list is one line.
 * err  ERR_NOMEM */
int lines_print(const json_t *reply, struct error *err) MUST_CHECK;

/* What people call them, one a line: of mgpu.queue/1 the jobs' numbers, of
 * mgpu.nodes/1 names, of mgpu.gpus/1 GPUs as "n1:0". */
void lines_ids(const json_t *reply, FILE *out);

#endif
