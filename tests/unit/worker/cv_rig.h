/* cv_rig.h - a model on a device (tests/device.h) with a batch of drawn data.
 *
 * The device's ops table is a copy that counts allocations. For tests only:
 * whatever a test does not expect to fail ends it with the message.
 */
#ifndef MGPU_TESTS_CV_RIG_H
#define MGPU_TESTS_CV_RIG_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"
#include "kernels/device.h"
#include "tests/device.h"
#include "tests/pass.h"
#include "tests/tap.h"
#include "worker/cv/mobilenet.h"

static inline void must(int rc, const struct error *err)
{
    if (rc < 0) {
        tap_diag("%s", err->msg);
        exit(1);
    }
}

/* What the device gave out since rig_init() last cleared it. */
static int64_t rig_allocs, rig_bytes;
static const struct device_ops *rig_real;

static inline int rig_alloc(struct device *d, size_t bytes, void **ret,
                            struct error *err)
{
    rig_allocs++;
    rig_bytes += (int64_t)bytes;
    return rig_real->alloc(d, bytes, ret, err);
}

struct rig {
    struct device_ops ops;
    struct device *d;
    struct model *m;
    struct mobilenet_conf conf;
    void *x;        /* [batch, S, S, channels] T */
    int32_t *label; /* [batch] */
    uint64_t seed;  /* of the last rig_loss() */
};

static inline size_t rig_x_elems(const struct rig *r)
{
    size_t s = (size_t)r->conf.image_size;
    return (size_t)r->conf.batch * s * s * (r->conf.in_channels == 1 ? 1 : 3);
}

/* Uniform in [-1.5, 1.5), and labels at random. */
static inline void rig_draw(struct rig *r, uint32_t seed)
{
    struct error err = ERROR_INIT;
    struct rng rng;
    size_t bytes = rig_x_elems(r) * dtype_bytes(r->conf.dt);
    size_t n = (size_t)r->conf.batch;
    void *x = malloc(bytes);
    int32_t *label = malloc(n * sizeof(*label));
    if (x == NULL || label == NULL)
        abort();
    rng_seed(&rng, seed);
    for (size_t i = 0; i < rig_x_elems(r); i++) {
        double v = 3 * rng_uniform(&rng) - 1.5;
        dtype_set(r->conf.dt, x, (int64_t)i, v);
    }
    for (size_t i = 0; i < n; i++)
        label[i] = (int32_t)(rng_u32(&rng) % (uint32_t)r->conf.num_classes);
    must(r->d->ops->to_device(r->d, r->x, x, bytes, &err), &err);
    must(r->d->ops->to_device(r->d, r->label, label, n * sizeof(*label), &err),
         &err);
    must(r->d->ops->sync(r->d, &err), &err);
    free(x);
    free(label);
}

static inline void rig_init(struct rig *r, const struct mobilenet_conf *conf,
                            int32_t threads, uint32_t seed)
{
    struct error err = ERROR_INIT;
    void *p = NULL;
    memset(r, 0, sizeof(*r));
    r->conf = *conf;
    must(test_device(threads, &r->d, &err), &err);
    rig_real = r->d->ops;
    r->ops = *rig_real;
    r->ops.alloc = rig_alloc;
    r->d->ops = &r->ops;
    must(
        r->ops.alloc(r->d, rig_x_elems(r) * dtype_bytes(conf->dt), &r->x, &err),
        &err);
    must(r->ops.alloc(r->d, (size_t)conf->batch * sizeof(int32_t), &p, &err),
         &err);
    r->label = p;
    rig_draw(r, seed);
    rig_allocs = rig_bytes = 0;
    must(mobilenet_create(r->d, conf, &r->m, &err), &err);
    must(model_init(r->m, seed, &err), &err);
}

static inline void rig_clear(struct rig *r)
{
    model_destroy(r->m);
    r->d->ops->release(r->d, r->label);
    r->d->ops->release(r->d, r->x);
    r->d->ops->destroy(r->d);
}

/* Forward in training mode; the sum of the losses. */
static inline double rig_loss(struct rig *r, uint64_t seed)
{
    struct error err = ERROR_INIT;
    double sum;
    int64_t hits;
    r->seed = seed;
    must(pass_forward(r->m, r->x, r->label, r->conf.batch, true, seed, &err),
         &err);
    must(pass_result(r->m, r->conf.batch, &sum, &hits, &err), &err);
    return sum;
}

static inline void rig_backward(struct rig *r, double scale)
{
    struct error err = ERROR_INIT;
    must(pass_backward(r->m, r->conf.batch, r->seed, scale, &err), &err);
    must(r->d->ops->sync(r->d, &err), &err);
}

#endif
