/* model_values.h - plain values that a model and its users hand to each other.
 */
#ifndef MGPU_WORKER_MODEL_VALUES_H
#define MGPU_WORKER_MODEL_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/device.h"

/* A tensor and its name in a file. */
struct model_tensor {
    const char *name;
    enum dtype dt; /* DT_N: int64 */
    int32_t dims, shape[4];
    void *data; /* host */
    size_t bytes;
};

/* The device's marks (kernels/device.h) from MODEL_MARK on are the model's. */
enum { MODEL_VALUES = 8, MODEL_MARK = 6 };

/* Result of a forward pass over a batch. Samples without a label have no part
 * in it. */
struct model_result {
    double loss_sum; /* over the batch's weight; nats */
    int64_t hits;    /* of the weight, how much is predicted right */
    /* Sums over the batch's weight, in the order of model_ops.values. */
    double values[MODEL_VALUES];
};

/* What a result's card says of its training. */
struct model_facts {
    const char *data;   /* how much there was: "19 rows of up to 13 tokens" */
    int64_t iteration;  /* of the weights */
    int32_t epochs;     /* that were asked for */
    const char *parent; /* the job that it goes on from; "": one that is not
                         * known, NULL: none */
    bool is_best;       /* of all evaluations; else the last */
    bool has_rows;      /* for an evaluation */
    double loss;        /* of the evaluation; NAN: not known */
    double missed; /* is_best: a better one that could not be saved; or NAN */
};

/* How an answer to a prompt is made. */
struct model_choice {
    int32_t max_new;    /* tokens at most */
    double temperature; /* 0: the likeliest token */
    int32_t top_k;      /* of so many; 0: of all */
    double top_p;       /* of the likeliest with this probability; 0, 1: all */
    uint32_t seed;
};

#endif
