/* model_plan.h - the memory that a model takes, and the parts of its
 * parameters. */
#ifndef MGPU_WORKER_MODEL_PLAN_H
#define MGPU_WORKER_MODEL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

struct model_plan {
    int64_t params;     /* elements of T; as many gradients */
    int64_t state;      /* elements of A, see model_ops.state; may be 0 */
    int64_t bytes_base; /* of weights that are not trained */
    int64_t bytes_params, bytes_grads, bytes_activations, bytes_work;
    int64_t bytes_gathered; /* of sharded ones, the units that are whole */
    int64_t bytes_total;    /* of the six: what create() takes */
    int64_t quantised, bytes_quantised; /* of the base, in fewer bits than T */
    int64_t bytes_rounded; /* of work: weights and inputs as fewer bits hold */
    /* Gradients that are there at a time, where backward() hands them over in
     * parts (model_ops.part); 0: all. */
    int64_t parts;
    int32_t ranges; /* of whole parameters, see model_ops.ranges */
    /* Beside it, on a GPU: the device's scratch of the widest layer's op, and
     * by how much arrays are larger whose rows it pads. */
    int64_t bytes_scratch;
};

/* A part of the parameters: a tensor, or where these are more than
 * MODEL_RANGES, neighbours of a kind. */
struct model_range {
    int64_t first, count;
    bool is_norm_bias; /* recipes keep these from weight decay */
};
enum { MODEL_RANGES = 512 };

#endif
