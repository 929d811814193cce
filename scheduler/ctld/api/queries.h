/* queries.h - the parts of a job that other replies show, too. */
#ifndef MGPU_SCHEDULER_CTLD_API_QUERIES_H
#define MGPU_SCHEDULER_CTLD_API_QUERIES_H

#include <jansson.h>

struct job;

/* The job's specification without its secrets; null: it has none. */
json_t *queries_spec_json(const struct job *job);

#endif
