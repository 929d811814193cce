/* resize.h - a request to change the number of GPUs of a job. */
#ifndef MGPU_SCHEDULER_ENGINE_RESIZE_H
#define MGPU_SCHEDULER_ENGINE_RESIZE_H

#include "scheduler/engine/engine.h"

struct engine_size {
    int32_t gpus;  /* 0: as the policy chooses */
    int32_t nodes; /* 0: any number of its range */
};

/* A live job is told to stop, with its grace time for a checkpoint, and queued
 * at its place; the next attempt has exactly this size. A pending job starts
 * with it. The attempt after that may have any size of its range again. Costs
 * no retry. Idempotent. Another size in the middle of a resize takes the place
 * of its size: the attempt that stops goes on stopping.
 *
 * in   who  the name of uid, for the reason
 * err  ERR_INVAL the job may not have this size (names those that it may), or
 *      the nodes that are up could not hold it; ERR_STATE it has it, does not
 *      save its work, has ended or is about to; else as engine_requeue() */
int engine_resize(struct engine *e, uint64_t id, int64_t uid, const char *who,
                  const struct engine_size *to, struct error *err) MUST_CHECK;

/* What engine_resize() would do now, unless it refuses: "Resizing: from 1 to 4
 * GPUs, asked by anna, in place of 2", which is the reason of the job then, or
 * "Resizing: from 1 to 4 GPUs is under way already". */
void engine_resize_says(const struct job *job, const char *who,
                        const struct engine_size *to, char ret[JOB_REASON_CAP]);

#endif
