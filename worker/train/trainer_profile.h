/* trainer_profile.h - the profile of a run: which iterations are profiled, and
 * the rows of each epoch.
 *
 * Without train.profile every function does nothing. */
#ifndef MGPU_WORKER_TRAIN_TRAINER_PROFILE_H
#define MGPU_WORKER_TRAIN_TRAINER_PROFILE_H

#include "worker/train/trainer_internal.h"

/* Behind the device and its communicator. */
void trainer_profile_open(struct trainer *t);
/* Around an iteration. */
void trainer_profile_begin(struct trainer *t);
void trainer_profile_end(struct trainer *t, double t_iter,
                         const struct agreed *a);
/* Rank 0: the time of train.profile_first is over. */
bool trainer_profile_is_over(const struct trainer *t);
/* The rows of the epoch that t->at is in. Every rank calls it. */
int trainer_profile_epoch(struct trainer *t, struct error *err) MUST_CHECK;
void trainer_profile_close(struct trainer *t);

#endif
