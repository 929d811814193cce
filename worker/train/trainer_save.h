/* trainer_save.h - write checkpoints, and handle failures as
 * checkpoint.on_error says.
 *
 * Each rank calls these functions: rank 0 writes, and the others send it their
 * shards. With on_error: warn a failed checkpoint is reported in the log and to
 * the daemon, and no function returns -1 for it; with fail all do.
 */
#ifndef MGPU_WORKER_TRAIN_TRAINER_SAVE_H
#define MGPU_WORKER_TRAIN_TRAINER_SAVE_H

#include "worker/train/trainer_internal.h"

/* Saves while the job trains. */
int trainer_save_now(struct trainer *t, struct error *err) MUST_CHECK;
/* Whether x is better than `was`, as checkpoint.mode says; anything is than a
 * value that is none. */
bool trainer_is_better(const struct job_spec *s, double x, double was);
/* The position is already that behind the evaluation v. */
int trainer_save_best(struct trainer *t, const struct evaluation *v,
                      struct error *err) MUST_CHECK;
/* Saves before the run stops.
 * out  ret_why  what became of it, and what is lost without it */
int trainer_save_stop(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err) MUST_CHECK;
/* Saves after the last iteration, when the result is exported.
 * out  ret_why  "", or that there is none */
int trainer_save_last(struct trainer *t, char *ret_why, size_t cap,
                      struct error *err) MUST_CHECK;

#endif
