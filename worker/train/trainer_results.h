/* trainer_results.h - what a run leaves for people: answers to prompts, and
 * files that others can use. */
#ifndef MGPU_WORKER_TRAIN_TRAINER_RESULTS_H
#define MGPU_WORKER_TRAIN_TRAINER_RESULTS_H

#include "jobs/base/error.h"

struct trainer;

/* Rank 0: the model's answers to train.sample.prompts, to the log and to
 * samples.jsonl. What fails is a line of the log: a run is not lost for it. */
void trainer_sample(struct trainer *t);
/* The same behind an iteration, if train.sample.every says so and the time
 * allows it. */
void trainer_sample_between(struct trainer *t);
/* Rank 0: what others can use, into the output directory. */
int trainer_save_result(struct trainer *t, struct error *err) MUST_CHECK;

#endif
