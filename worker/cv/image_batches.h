/* image_batches.h - batches of labelled images: the source of kind cv, over
 * the data sets and loaders of worker/data.
 */
#ifndef MGPU_WORKER_CV_IMAGE_BATCHES_H
#define MGPU_WORKER_CV_IMAGE_BATCHES_H

#include "worker/batch.h"

/* The arrays of a batch. */
enum image_array {
    IMAGE_X,     /* [n, S, S, C] T, C 1 or 3 */
    IMAGE_LABEL, /* [n] i32; < 0: the sample is left out */
};

/* A batch of n images, all of them real.
 * in  x_bytes  of one image */
static inline struct batch image_batch(void *x, size_t x_bytes, int32_t *label,
                                       int32_t n)
{
    struct batch b = {.n = n, .valid = n, .weight = n, .tokens = -1};
    b.arrays[IMAGE_X] = (struct batch_array){x, x_bytes};
    b.arrays[IMAGE_LABEL] = (struct batch_array){label, sizeof(*label)};
    return b;
}

/* err  ERR_INVAL the data does not fit the specification, or the ranks do not
 *      find the same files; ERR_NOTFOUND, ERR_LIMIT, ERR_NOMEM as
 *      dataset_open() */
int image_batches_open(const struct batch_env *env, struct batch_source **ret,
                       struct error *err) MUST_CHECK;

#endif
