/* checkpoint_internal.h - shared declarations of checkpoint_*.c. */
#ifndef MGPU_WORKER_CHECKPOINT_CHECKPOINT_INTERNAL_H
#define MGPU_WORKER_CHECKPOINT_CHECKPOINT_INTERNAL_H

#include <stdbool.h>

#include "jobs/base/buf.h"
#include "worker/checkpoint/checkpoint.h"

/* Files before CKPT_STATE hold tensors. A checkpoint has one of CKPT_MODEL and
 * CKPT_ADAPTER; CKPT_EMA is optional. */
enum checkpoint_file {
    CKPT_MODEL,
    CKPT_ADAPTER,
    CKPT_OPTIM,
    CKPT_EMA,
    CKPT_STATE,
    CKPT_FILES
};

/* In place of an iteration: the directory "best". */
enum { CKPT_BEST = -1 };
/* The earlier layout has no train/. */
enum checkpoint_layout { CKPT_FLAT, CKPT_TRAIN, CKPT_LAYOUTS };
extern const char *const checkpoint_names[CKPT_LAYOUTS][CKPT_FILES];
/* Those that are written. */
extern const char *const *const checkpoint_files;
extern const char checkpoint_train[]; /* the directory */

/* The checksums of the data files travel in state.json, whose own text
 * carries one too. That of a file that is not there is 0. Both layouts are
 * decoded, the one that is written is encoded. */
int checkpoint_encode(const struct checkpoint_state *s,
                      const uint64_t crc[CKPT_STATE], struct buf *out,
                      struct error *err) MUST_CHECK;
int checkpoint_decode(const char *text, size_t len,
                      struct checkpoint_state *ret,
                      uint64_t ret_crc[CKPT_STATE],
                      struct error *err) MUST_CHECK;

/* Elements of array i in a file. */
static inline int64_t checkpoint_whole(const struct checkpoint_parts *p,
                                       int32_t i)
{
    return p->exchange != NULL ? shards_whole(p->exchange->shards)
                               : p->arrays[i].n;
}

/* The iterations of the step-N in dir, descending; the caller frees *ret.
 * With `tmp`, those of step-N.tmp. No directory: none. */
int checkpoint_list(const char *dir, bool tmp, int64_t **ret, size_t *ret_n,
                    struct error *err) MUST_CHECK;
/* Removes our files alone: a directory with another file in it stays. */
int checkpoint_remove(const char *dir, int64_t iteration, const char *suffix,
                      struct error *err);
/* Removes from a checkpoint what model_ops.save_config() may have written. */
int checkpoint_remove_beside(const char *step, struct error *err);
int checkpoint_path(struct buf *out, const char *dir, int64_t iteration,
                    const char *suffix, struct error *err) MUST_CHECK;

#endif
