/* in_line.h - jobs that are pending in the queue of the cluster's scheduler. */
#ifndef MGPU_SCHEDULER_ENGINE_IN_LINE_H
#define MGPU_SCHEDULER_ENGINE_IN_LINE_H

#include "scheduler/engine/job.h"

/* The allocator has accepted its attempt, and not granted it yet. */
static inline bool job_is_in_line(const struct job *job)
{
    return (job->state == JOB_DISPATCHING || job->state == JOB_UNKNOWN) &&
           job->pending_id[0] != '\0' && job->native_id[0] == '\0';
}

#endif
