/* trainer_position.h - where a run begins, and where it ends. */
#ifndef MGPU_WORKER_TRAIN_TRAINER_POSITION_H
#define MGPU_WORKER_TRAIN_TRAINER_POSITION_H

#include <stdbool.h>
#include <stddef.h>

#include "jobs/base/error.h"

struct trainer;
struct evaluation;

/* The position, and what belongs to it, are rank 0's afterwards. */
int trainer_find_newest(struct trainer *t, struct error *err) MUST_CHECK;

/* Sets t->total by train.max_iterations and the iterations that were done. */
void trainer_position_limit(struct trainer *t);

/* train.early_stopping: counts a value. All ranks have the same, and so agree.
 * in  train_loss  of a whole epoch; NULL: inside one */
void trainer_position_watch(struct trainer *t, const double *train_loss,
                            const struct evaluation *v);
bool trainer_position_is_over(const struct trainer *t);

/* What ended the job before its last epoch; "": nothing did. */
void trainer_position_reason(const struct trainer *t, char *ret, size_t cap);

#endif
