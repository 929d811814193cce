/* admin_resize.h - mgpu-admin resize: change the number of GPUs of a job. */
#ifndef MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_RESIZE_H
#define MGPU_SCHEDULER_TOOLS_ADMIN_ADMIN_RESIZE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

struct client;

struct admin_resize {
    int64_t nodes; /* 0: any number */
    bool json, quiet;
};

/* words: JOB, and the number of GPUs or "any". */
int admin_resize(struct client *c, const struct admin_resize *conf,
                 char **words, struct error *err) MUST_CHECK;

/* The job of an answer, as mgpu.admin/1 on standard output. */
int admin_print_job(const json_t *job, struct error *err) MUST_CHECK;

#endif
