/* trainer_save.h - when a run writes checkpoints, and what it does when it
 * cannot (checkpoint.on_error).
 *
 * Each rank calls these functions: rank 0 writes, the others have a part in it
 * where the parameters are shared out. With on_error: warn a checkpoint that
 * fails is said in the log and to the reporter, and no function returns -1 for
 * it; with fail all do.
 */
#ifndef MGPU_WORKER_TRAIN_TRAINER_SAVE_H
#define MGPU_WORKER_TRAIN_TRAINER_SAVE_H

#include "worker/train/trainer_internal.h"

/* On the way. */
int trainer_save_now(struct trainer *t, struct error *err) MUST_CHECK;
/* The position is already that behind the evaluation v. */
int trainer_save_best(struct trainer *t, const struct evaluation *v,
                      struct error *err) MUST_CHECK;
/* Before the run stops.
 * out  ret_why  what became of it, and what is lost without it */
int trainer_save_stop(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err) MUST_CHECK;
/* After the last iteration, with the result exported.
 * out  ret_why  "", or that there is none */
int trainer_save_last(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err) MUST_CHECK;

#endif
