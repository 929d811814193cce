/* optimizer.h - one step of SGD, AdamW or RMSprop over all parameters, and
 * the state that it keeps. Weight decay applies to every parameter, as
 * PyTorch's optimizers do by default, or with train.optimizer.no_decay to
 * all but the ranges that are exempt, one call of the device for each range.
 */
#ifndef MGPU_WORKER_TRAIN_OPTIMIZER_H
#define MGPU_WORKER_TRAIN_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/spec/spec.h"
#include "kernels/device.h"

enum { OPTIM_ARRAYS = 3 };

/* A part of the parameters; ranges follow each other. */
struct optimizer_range {
    int64_t first, count;
    bool is_exempt; /* from weight decay, under no_decay: norm_bias */
};

struct optimizer_array {
    const char *name; /* PyTorch's */
    void *data;       /* [n] A on the device; of adamw8bit codes */
    float *most;      /* of adamw8bit [blocks]: the largest of each block */
};

struct optimizer {
    struct device *dev; /* borrowed */
    const struct job_spec *spec;
    enum dtype dt;
    int64_t n;
    struct optimizer_array state[OPTIM_ARRAYS]; /* owned */
    int32_t n_state;
    struct optimizer_range *ranges; /* owned */
    int32_t n_ranges;
    /* For adamw8bit (kernels/ops/state8.h): room for blocks, the first block of
     * each range, and the maps on the device; owned. */
    int64_t blocks, *first_block;
    float *maps;
    void *sum;             /* [1] double on the device; owned */
    struct optim_now *now; /* on the device; owned */
};

/* Whether the state is in eight bits. */
bool optimizer_is_8bit(const struct job_spec *spec);
/* Bytes of device memory that optimizer_init() will take.
 * in   ranges  how many */
int64_t optimizer_bytes(const struct job_spec *spec, enum dtype dt, int64_t n,
                        int32_t ranges);

/* Bytes that a step reads and writes at least, of n weights of type dt: weights
 * and state, both ways; gradients are not among them. */
double optimizer_moves(const struct job_spec *spec, enum dtype dt, int64_t n);

/* in   ranges  cover 0..n; copied */
int optimizer_init(struct optimizer *ret, struct device *dev,
                   const struct job_spec *spec, enum dtype dt, int64_t n,
                   const struct optimizer_range *ranges, int32_t n_ranges,
                   struct error *err) MUST_CHECK;
void optimizer_clear(struct optimizer *o); /* zeroed is fine */

/* step counts from 1; lr is the whole rate, schedule included; the gradient
 * is multiplied by grad_scale first. */
int optimizer_step(struct optimizer *o, void *params, const void *grads,
                   int64_t step, double lr, double grad_scale,
                   struct error *err) MUST_CHECK;

/* The same in two parts, for a step that is captured and launched again
 * (kernels/device.h): what changes, then the calls, which read it. */
int optimizer_put(struct optimizer *o, int64_t step, double lr,
                  double grad_scale, struct error *err) MUST_CHECK;
int optimizer_step_only(struct optimizer *o, void *params, const void *grads,
                        struct error *err) MUST_CHECK;
/* Updates the parameters [first, first + count) alone; grads begins with
 * theirs. With adamw8bit these are whole ranges. */
int optimizer_step_part(struct optimizer *o, void *params, const void *grads,
                        int64_t first, int64_t count,
                        struct error *err) MUST_CHECK;

/* The length of the gradient as one vector; the same bits whenever the
 * gradient has the same bits. Waits for the device. */
int optimizer_grad_norm(struct optimizer *o, const void *grads, double *ret,
                        struct error *err) MUST_CHECK;

/* Factor that makes a gradient of this norm at most `max` long, as
 * torch.nn.utils.clip_grad_norm_ does; max 0: 1. For a NaN it is NaN. */
double optimizer_clip(double norm, double max);

#endif
