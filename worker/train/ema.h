/* ema.h - a running mean of the weights, and of the model's state (the batch
 * norms' statistics), which an evaluation uses in their place.
 *
 * src  torchvision's ExponentialMovingAverage with use_buffers: the first
 *      update copies, each one after it gives decay * mean + (1 - decay) * p.
 */
#ifndef MGPU_WORKER_TRAIN_EMA_H
#define MGPU_WORKER_TRAIN_EMA_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/device.h"
#include "worker/model_call.h"

struct ema {
    struct device *dev;  /* borrowed; NULL: there is none */
    struct model *model; /* borrowed */
    enum dtype dt;
    const void *weights; /* borrowed; of type weights_dt */
    enum dtype weights_dt;
    double decay;
    void *mean, *state;           /* [params], [state] A; owned */
    void *kept_mean, *kept_state; /* the model's own while it is shown */
};

/* Bytes of device memory that ema_init() will take. */
int64_t ema_bytes(const struct model_plan *plan, enum dtype dt, double decay);

/* decay 0: none, and the calls below do nothing.
 * in   weights  the fp32 weights behind the model's, to average instead;
 *               NULL: there are none */
int ema_init(struct ema *ret, struct device *dev, struct model *model,
             enum dtype dt, const void *weights, double decay,
             struct error *err) MUST_CHECK;
void ema_clear(struct ema *e); /* zeroed is fine */

/* The share of the mean that is still its start, after so many updates: 0..1;
 * decay 0: 0. */
double ema_rest(double decay, int64_t updates);
/* Above this an evaluation says more of the start than of the training. */
#define EMA_REST_MAX 0.05

/* Call it after each step of the optimizer; with is_first it copies. */
int ema_update(struct ema *e, bool is_first, struct error *err) MUST_CHECK;

/* Puts the mean into the model, and with false the model's own back. */
int ema_show(struct ema *e, bool on, struct error *err) MUST_CHECK;

#endif
