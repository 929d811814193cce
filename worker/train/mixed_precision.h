/* mixed_precision.h - weights in fp32 behind a model that computes in 16 bits,
 * and the loss scale that keeps small gradients in the range of fp16.
 *
 * The optimizer changes the fp32 weights, by the model's 16-bit gradients;
 * the model gets them rounded after each step. A change that is smaller than
 * half a step of the 16-bit format is thus not lost, but adds up.
 *
 * fp16 ends at 2^-24, where the gradients of a mean over a large batch lie.
 * The loss, and with it every gradient, is multiplied by a scale, which the
 * optimizer takes out again, in fp32. A scale that is too large shows as a
 * gradient that is infinite: that step is left out and the scale halved;
 * after 2000 good steps in a row it is doubled. Rule and numbers are those
 * of torch.cuda.amp.GradScaler. All ranks see the same sum of gradients, and
 * so decide alike. bf16 has the range of fp32 and needs no scale.
 *
 * src  Micikevicius et al. 2018, arXiv:1710.03740, sections 3.1 and 3.2
 */
#ifndef MGPU_WORKER_TRAIN_MIXED_PRECISION_H
#define MGPU_WORKER_TRAIN_MIXED_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "worker/model_call.h"

struct mixed {
    struct device *dev;  /* borrowed; NULL: the model's weights are all */
    struct model *model; /* borrowed */
    enum dtype dt;
    void *weights, *grads; /* [params] fp32, grads [plan.parts] if there are
                              parts; owned */
};

/* Bytes of device memory that mixed_init() will take. */
int64_t mixed_bytes(const struct model_plan *plan);

int mixed_init(struct mixed *ret, struct device *dev, struct model *model,
               enum dtype dt, struct error *err) MUST_CHECK;
void mixed_clear(struct mixed *x); /* zeroed is fine */

/* The fp32 weights become those of the model. */
int mixed_begin(struct mixed *x, struct error *err) MUST_CHECK;
/* The fp32 gradients become those of the model. */
int mixed_take_grads(struct mixed *x, struct error *err) MUST_CHECK;
/* The same for a part, which the model has at `from`: those in fp32 begin where
 * x->grads does. */
int mixed_take_part(struct mixed *x, const void *from, int64_t count,
                    struct error *err) MUST_CHECK;
int mixed_give_part(struct mixed *x, int64_t first, int64_t count,
                    struct error *err) MUST_CHECK;
/* The model's weights become the fp32 ones, rounded. */
int mixed_give_weights(struct mixed *x, struct error *err) MUST_CHECK;

/* A plain value: it is part of a checkpoint. */
struct loss_scale {
    double scale;       /* 1 where none is needed, and stays 1 */
    int64_t good_steps; /* in a row, since the scale was changed */
};

enum { LOSS_SCALE_GROW_AFTER = 2000 };
#define LOSS_SCALE_FIRST 65536.0
/* A gradient that overflows with this is no matter of the scale. */
#define LOSS_SCALE_LEAST 0x1p-14

struct loss_scale loss_scale_first(enum dtype dt, bool is_mixed);
/* Call it after the gradients are summed; is_finite: all of them are numbers.
 * False when the scale cannot be lowered any more. */
bool loss_scale_next(struct loss_scale *s, bool is_finite);

#endif
