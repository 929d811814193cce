/* resume_from.h - train.resume_from: the checkpoint of another job, with the
 * same specification, from which this one goes on. */
#ifndef MGPU_WORKER_TRAIN_RESUME_FROM_H
#define MGPU_WORKER_TRAIN_RESUME_FROM_H

#include "jobs/base/buf.h"
#include "jobs/spec/spec.h"

/* The directory with checkpoints: s->train.resume_from, or ckpt/ below it; or
 * it is a checkpoint itself. Keys that decide what is computed must be the same
 * in both jobs, but how long it trains; with train.eval_only the data may
 * differ, too, and with train.weights_only the data, the optimizer and the
 * schedule. The seed is the other's from there on, whatever s says, but with
 * train.weights_only.
 * out  ret_dir    appended
 *      ret_is_one it is a checkpoint
 *      ret_notes  a line for each thing that a person should know
 * err  ERR_NOTFOUND it has no checkpoint; ERR_INVAL keys that differ, by name;
 *      ERR_IO, ERR_DENIED, ERR_NOMEM */
int resume_from_find(const struct job_spec *s, struct buf *ret_dir,
                     bool *ret_is_one, struct buf *ret_notes,
                     struct error *err) MUST_CHECK;

#endif
