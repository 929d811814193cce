/* checkpoint.h - save and load the state with which a training run resumes as
 * if it had never stopped.
 *
 * In <dir>/step-<iteration>/, and the same in <dir>/best/, which is never
 * loaded unasked:
 *   - model.safetensors: what the model exports; adapter_model.safetensors, if
 *     that is an adapter
 *   - ema.safetensors: the mean of the weights, if there is one, as the model
 *   - train/optim.safetensors: the optimizer's flat arrays, and what else only
 *     a resume needs
 *   - train/state.json: the position, and checksums
 *
 * Beside the model lie the files of model_ops.save_config(), with which other
 * programs load the directory as it is; where they cannot be written, a warning
 * says so, and the checkpoint has none of them. Earlier versions had no train/,
 * and its files beside the model: they are read, too.
 *
 * A checkpoint is written as step-N.tmp, synced file by file, and renamed:
 * it is there whole or not at all. The newest `keep` stay. Loading takes the
 * newest whose checksums hold; one that is damaged is passed over, one that
 * cannot be read is an error.
 *
 * Only rank 0 calls these functions; if the parameters are sharded, the others
 * serve it meanwhile (shard_exchange.h).
 */
#ifndef MGPU_WORKER_CHECKPOINT_CHECKPOINT_H
#define MGPU_WORKER_CHECKPOINT_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/buf.h"
#include "jobs/base/error.h"
#include "kernels/device.h"
#include "worker/comm/shard_exchange.h"
#include "worker/model_call.h"
#include "worker/train/mixed_precision.h"

/* The position in training; a plain value, so that it can be broadcast. */
struct checkpoint_state {
    int64_t iteration; /* done, through the whole job */
    int64_t updates;   /* of them, those that changed the weights */
    int64_t done; /* iterations that were trained, whatever the global batch;
                     `iteration` is counted anew with another one */
    int64_t seed, global_batch;
    int32_t epoch; /* the one under way, from 1 */
    int32_t batch; /* done in it; 0: it has not begun */
    int32_t ranks;
    int32_t batch_size; /* of one rank's pass; 0: an older file, not known */
    /* Sums of the current epoch, for its metric row. */
    double epoch_s, loss_sum;
    int64_t samples; /* trained on */
    int64_t counted; /* samples, or label tokens of a text, whose loss is in
                        loss_sum: not those of a loss that was no number */
    int64_t tokens;  /* trained on; 0: its samples are no text */
    double best;     /* the metric of <dir>/best; NAN: there is none */
    /* train.early_stopping: the best value, NAN: none yet; values since then */
    double watched;
    int32_t waited;
    int64_t evaluated; /* iteration of the newest evaluation inside an epoch */
    struct loss_scale loss_scale;
};

enum { CHECKPOINT_ARRAYS = 8 };
struct checkpoint_array {
    const char *name;
    void *data; /* [n] A on the device */
    int64_t n;
    /* NULL, or: data is something else, and these move the values, host [n] A,
     * of array i of arg. Not with exchange. */
    int (*fetch)(void *arg, int32_t i, void *host, struct error *err);
    int (*store)(void *arg, int32_t i, const void *host, struct error *err);
    void *arg;
    int32_t i;
};

/* What a checkpoint holds beside the state; all pointers are borrowed. */
struct checkpoint_parts {
    struct device *dev;
    struct model *model;
    enum dtype dt;
    /* The optimizer's flat arrays, and what else a step leaves. */
    int32_t n;
    struct checkpoint_array arrays[CHECKPOINT_ARRAYS];
    bool weights_only; /* loading leaves the arrays as they are */
    /* Puts the mean of the weights into the model, with false the model's
     * own back; NULL: there is no mean. */
    int (*show)(void *arg, bool on, struct error *err);
    void *arg;
    /* The model's parameters, and array i as its number i + 1, are sharded, but
     * whole in the files. NULL: they are not. */
    struct shard_exchange *exchange;
};

/* Whether the directory is itself a checkpoint, whole or not, of this version
 * or an earlier one, as step-N or best is. */
bool checkpoint_is_one(const char *dir);

/* err  ERR_IO; the checkpoints that were there still are */
int checkpoint_save(const char *dir, const struct checkpoint_state *state,
                    const struct checkpoint_parts *parts, int32_t keep,
                    struct error *err) MUST_CHECK;

/* Saves as <dir>/best, in place of the one there.
 * err  ERR_IO; the one that was there still is */
int checkpoint_save_best(const char *dir, const struct checkpoint_state *state,
                         const struct checkpoint_parts *parts,
                         struct error *err) MUST_CHECK;

/* The files of the model alone, each whole or not at all, in `dir`: for a run
 * whose last checkpoint has no room. Not with exchange.
 * err  ERR_IO */
int checkpoint_export(const char *dir, const struct checkpoint_parts *parts,
                      struct error *err) MUST_CHECK;

/* out  ret          the position
 *      ret_skipped  a line for each damaged one that is newer than the one
 *                   taken, or for each of all when none is whole: its name and
 *                   why; also on failure. The caller clears it
 * err  ERR_NOTFOUND there is none (also: none that is whole);
 *      ERR_INVAL it is of another model or optimizer;
 *      ERR_IO, ERR_DENIED, ERR_NOMEM the newest cannot be read now; the
 *      message says what to do */
int checkpoint_load(const char *dir, const struct checkpoint_parts *parts,
                    struct checkpoint_state *ret, struct buf *ret_skipped,
                    struct error *err) MUST_CHECK;

/* As checkpoint_load(), of one directory that is a checkpoint: <dir>/best, or
 * any step-<iteration>.
 * out  ret_is_read  NULL, or: its files were read whole; a failure after that
 *                   may have changed a part of the model and of the arrays
 * err  ERR_INVAL it is damaged, or of another model; else as there */
int checkpoint_load_one(const char *step, const struct checkpoint_parts *parts,
                        struct checkpoint_state *ret, bool *ret_is_read,
                        struct error *err) MUST_CHECK;

/* Creates path and its parents as mkdir -p does, with mode 0700. */
int checkpoint_make_dirs(const char *path, struct error *err) MUST_CHECK;

#endif
