/* lr_schedule.h - the learning rate of a step. */
#ifndef MGPU_WORKER_TRAIN_LR_SCHEDULE_H
#define MGPU_WORKER_TRAIN_LR_SCHEDULE_H

#include <stdint.h>

#include "jobs/spec/spec.h"

/* The factor on the learning rate at step 0..total-1, per_epoch of them in
 * an epoch.
 *
 * All rise from 0 over the warm-up steps, so the first step of a warm-up
 * changes nothing. After it, constant stays at 1; cosine falls from 1
 * towards 0, which it would reach at step `total`; step and multistep are
 * gamma to the power of the steps taken, one every step_size epochs or one at
 * each milestone, epochs being counted from the start of the training.
 * src  torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup with
 *      num_cycles 0.5; torch.optim.lr_scheduler.StepLR, MultiStepLR */
double schedule_factor(const struct job_spec *spec, int64_t step,
                       int64_t per_epoch, int64_t total);

#endif
