/* pass.h - one pass over a batch of images that lies on the device.
 *
 * A test says seed and scale with the pass that reads them; the model takes
 * both in one put().
 */
#ifndef MGPU_TESTS_PASS_H
#define MGPU_TESTS_PASS_H

#include "worker/cv/image_batches.h"
#include "worker/model_call.h"

static inline int MUST_CHECK pass_forward(struct model *m, void *x,
                                          int32_t *label, int32_t n, bool train,
                                          uint64_t seed, struct error *err)
{
    const struct batch b = image_batch(x, 0, label, n);
    if (model_put(m, seed, 1, err) < 0)
        return -1;
    return model_forward(m, &b, train, err);
}

/* in  seed  that of the forward pass */
static inline int MUST_CHECK pass_backward(struct model *m, int32_t n,
                                           uint64_t seed, double scale,
                                           struct error *err)
{
    const struct batch b = {.n = n};
    if (model_put(m, seed, scale, err) < 0)
        return -1;
    return model_backward(m, &b, NULL, NULL, err);
}

/* *ret_loss and *ret_hits stay as they are on failure. */
static inline int MUST_CHECK pass_result(struct model *m, int32_t n,
                                         double *ret_loss, int64_t *ret_hits,
                                         struct error *err)
{
    const struct batch b = {.n = n};
    struct model_result r;
    if (model_result(m, &b, &r, err) < 0)
        return -1;
    *ret_loss = r.loss_sum;
    *ret_hits = r.hits;
    return 0;
}

#endif
