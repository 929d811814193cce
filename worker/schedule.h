/* schedule.h - the learning rate of a step. */
#ifndef MGPU_WORKER_SCHEDULE_H
#define MGPU_WORKER_SCHEDULE_H

#include <stdint.h>

#include "jobs/spec.h"

/* The factor on the learning rate at step 0..total-1.
 *
 * Both rise from 0 over the warm-up steps, so the first step of a warm-up
 * changes nothing; after it, constant stays at 1 and cosine falls from 1
 * towards 0, which it would reach at step `total`.
 * src  torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup with
 *      num_cycles 0.5 */
double schedule_factor(enum spec_schedule name, int64_t step, int64_t warmup,
                       int64_t total);

#endif
