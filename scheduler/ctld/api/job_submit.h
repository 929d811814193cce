/* job_submit.h - the thread that reads submits. */
#ifndef MGPU_SCHEDULER_CTLD_API_JOB_SUBMIT_H
#define MGPU_SCHEDULER_CTLD_API_JOB_SUBMIT_H

#include "jobs/base/error.h"

struct ctld;

int job_submit_init(struct ctld *c, struct error *err) MUST_CHECK;

#endif
