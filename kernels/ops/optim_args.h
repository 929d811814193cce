/* optim_args.h - the scalars of an optimizer's step, which are arguments of the
 * optimizers in device.h. */
#ifndef MGPU_KERNELS_OPS_OPTIM_ARGS_H
#define MGPU_KERNELS_OPS_OPTIM_ARGS_H

#include <stdbool.h>
#include <stdint.h>

/* The scalars of an optimizer that change from step to step, in device memory,
 * so that a captured step can be repeated. */
struct optim_now {
    double lr;
    double grad_scale; /* the gradient is multiplied by this first */
    /* AdamW: 1 - beta^step for beta1, beta2; steps count from 1. */
    double reach1, reach2;
    int64_t first; /* SGD: the momentum buffer is empty */
};

/* One SGD step's scalars; see kernel_ops.sgd. */
struct sgd_args {
    double lr, momentum, weight_decay;
    double grad_scale;
    bool nesterov;
    bool first;
    const struct optim_now *now; /* device; NULL: use the scalars above */
};

/* One AdamW step's scalars. */
struct adamw_args {
    double lr, beta1, beta2, eps, weight_decay, grad_scale;
    int64_t step;
    const struct optim_now *now;
};

/* One RMSprop step's scalars; see kernel_ops.rmsprop. */
struct rmsprop_args {
    double lr, alpha, eps, momentum, weight_decay, grad_scale;
    const struct optim_now *now;
};

#endif
