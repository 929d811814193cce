/* trainer_results.h - results for people: answers to prompts, and files that
 * other programs can use. */
#ifndef MGPU_WORKER_TRAIN_TRAINER_RESULTS_H
#define MGPU_WORKER_TRAIN_TRAINER_RESULTS_H

#include <stddef.h>

#include "jobs/base/error.h"

struct trainer;

/* The model's answers to train.sample.prompts, to rank 0's log and to
 * samples.jsonl. What fails is a line of the log: a run is not lost for it.
 * Every rank calls these functions. */
void trainer_sample(struct trainer *t);
/* The same behind an iteration, if train.sample.every says so and the time
 * allows it. */
int trainer_sample_between(struct trainer *t, struct error *err) MUST_CHECK;
/* Writes what others can use into the output directory; where there is a best
 * evaluation, into its last/. */
int trainer_save_result(struct trainer *t, struct error *err) MUST_CHECK;
/* Writes the best into the output directory, after all else: the model has its
 * weights then. Where it cannot be read, the last, and *ret_why says so, as it
 * does where a better one could not be saved. Nothing without a best
 * evaluation. */
int trainer_export_best(struct trainer *t, char *ret_why, size_t cap,
                        struct error *err) MUST_CHECK;

#endif
