/* batch.h - samples on their way from the data to the model.
 *
 * A batch is arrays in device memory, and numbers in host memory that the
 * trainer counts with. The trainer does not know what the arrays hold: the
 * source that fills them and the model that reads them agree on that, by
 * the index of each array (images and labels of CV: cv/image_batches.h).
 */
#ifndef MGPU_WORKER_BATCH_H
#define MGPU_WORKER_BATCH_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

enum { BATCH_ARRAYS = 4 };

/* [n, bytes], device, dense: sample i begins at data + i * bytes. */
struct batch_array {
    void *data;
    size_t bytes; /* of one sample; 0: the batch has no such array */
};

struct batch {
    struct batch_array arrays[BATCH_ARRAYS];
    int32_t n;     /* samples, with those that are no samples (padding) */
    int32_t valid; /* real samples */
    /* What losses are averaged over: the real samples for CV, the tokens
     * with a label for an LLM. The host knows it when it makes the batch, so
     * no model has to fetch it from the device. */
    double weight;
    int64_t tokens;         /* read by the model; -1: it reads none */
    int32_t bad;            /* samples that cannot be read and are left out */
    struct error first_bad; /* why, of the first of these */
    double data_s;          /* host: making the batch, or waiting for it */
    double h2d_s;           /* copying to the device, enqueueing its work */
};

/* What data says of itself to the model that is to read it. */
struct batch_info {
    int32_t classes;    /* of labels; 0: labels are no classes */
    int32_t row_tokens; /* of the longest row; 0: rows are no tokens */
    size_t sample_bytes[BATCH_ARRAYS]; /* at most; 0: no such array */
    /* The weight of a sample that is complete: 1 for CV. Where
     * weights differ from sample to sample, any number of their size. The
     * gradient of a pass is divided by it, and corrected by the batches'
     * weights before the update. */
    double sample_weight;
};

#endif
