/* sampler.h - choose the samples of a rank, and their order.
 *
 * Training follows torch.utils.data.DistributedSampler index by index: the
 * order is torch.randperm(n) drawn from seed + epoch, padded from its own
 * start to a multiple of the ranks, and rank r takes every size-th entry
 * from r on. Every rank therefore has the same number of samples. With
 * SAMPLER_DROP_LAST the order is cut to a multiple instead.
 *
 * Evaluation must count each sample once, so there the padding is not a
 * repeated sample but SAMPLER_NONE: the loader gives it label -1, which the
 * loss leaves out. All ranks still have the same number of batches.
 */
#ifndef MGPU_WORKER_DATA_SAMPLER_H
#define MGPU_WORKER_DATA_SAMPLER_H

#include <stdint.h>

#include "jobs/base/error.h"

enum { SAMPLER_NONE = -1 };

enum sampler_flag {
    SAMPLER_SHUFFLE = 1,  /* a new order in each epoch */
    SAMPLER_EVAL = 2,     /* SAMPLER_NONE instead of repeated samples */
    SAMPLER_DROP_LAST = 4 /* no padding: what is left over is not seen */
};

struct sampler {
    int32_t n, rank, size;
    int32_t per_rank; /* ceil(n / size), or floor with SAMPLER_DROP_LAST */
    int64_t seed;
    uint32_t flags;
    int64_t epoch;  /* the one that order belongs to */
    int32_t *order; /* [n], owned */
};

/* in   flags  any of enum sampler_flag
 * err  ERR_INVAL n < 1, rank not in 0..size-1, or SAMPLER_DROP_LAST leaves
 *      nothing; ERR_NOMEM
 */
int sampler_init(struct sampler *ret, int32_t n, int32_t rank, int32_t size,
                 int64_t seed, uint32_t flags, struct error *err) MUST_CHECK;
void sampler_clear(struct sampler *s); /* NULL and zeroed are fine */

/* Call before the batches of each epoch. */
void sampler_epoch(struct sampler *s, int64_t epoch);

/* ceil(per_rank / batch), the same on every rank. */
int32_t sampler_batches(const struct sampler *s, int32_t batch);

/* out  ret_index[batch]  the samples of this rank's batch i
 * Returns how many there are: batch, or fewer in the last one; 0 after it.
 */
int32_t sampler_batch(const struct sampler *s, int32_t i, int32_t batch,
                      int32_t *ret_index);

#endif
