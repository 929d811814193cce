/* mixed_precision.c - the loss scale's rule, and weights that are kept in fp32:
 * changes that bf16 cannot hold add up. */
#include "worker/train/mixed_precision.h"

#include <math.h>

#include "tests/unit/worker/cv_rig.h"

static void test_scale(void)
{
    struct loss_scale s = loss_scale_first(DT_F16, true);
    ok(s.scale == 65536 && s.good_steps == 0, "fp16 begins with 2^16");
    ok(loss_scale_first(DT_BF16, true).scale == 1 &&
           loss_scale_first(DT_F16, false).scale == 1,
       "bf16 and pure fp16 are not scaled");
    for (int i = 0; i < LOSS_SCALE_GROW_AFTER - 1; i++)
        (void)loss_scale_next(&s, true);
    ok(s.scale == 65536, "the same after 1999 good steps");
    ok(loss_scale_next(&s, true) && s.scale == 131072 && s.good_steps == 0,
       "twice after 2000");
    (void)loss_scale_next(&s, true);
    ok(loss_scale_next(&s, false) && s.scale == 65536 && s.good_steps == 0,
       "half after an overflow, and counting anew");
    int left = 0;
    while (loss_scale_next(&s, false))
        left++;
    is_int(left, 30, "an end to it: 2^16 to 2^-14");
}

static double value(struct rig *r, const void *p, enum dtype dt, int64_t i)
{
    struct error err = ERROR_INIT;
    double v = 0;
    must(r->d->ops->to_host(r->d, &v,
                            (const char *)p + (size_t)i * dtype_bytes(dt),
                            dtype_bytes(dt), &err),
         &err);
    return dtype_get(dt, &v, 0);
}

/* A weight of 0.1 or so, changed by 2^-16 of itself 200 times: nothing each
 * time in bf16, whose steps are 2^-8, and 2^-8.4 in all. */
static void test_weights(void)
{
    enum { TIMES = 200 };
    const struct mobilenet_conf conf = {.dt = DT_BF16,
                                        .width_mult = 0.25,
                                        .num_classes = 3,
                                        .image_size = 32,
                                        .batch = 2};
    struct error err = ERROR_INIT;
    struct rig r;
    struct mixed x;
    struct model_plan plan;
    rig_init(&r, &conf, 1, 3);
    plan = *model_planned(r.m);
    rig_allocs = rig_bytes = 0;
    must(mixed_init(&x, r.d, r.m, DT_BF16, &err), &err);
    is_int(rig_bytes, mixed_bytes(&plan), "it takes what it said");
    must(mixed_begin(&x, &err), &err);
    void *momentum = NULL, *pure = model_params(r.m);
    must(r.d->ops->alloc(r.d, (size_t)plan.params * 4, &momentum, &err), &err);
    double first = value(&r, pure, DT_BF16, 5);
    ok(value(&r, x.weights, DT_F32, 5) == first, "it begins as the model");
    must(r.d->ops->copy(r.d, model_grads(r.m), pure, (size_t)plan.params * 2,
                        &err),
         &err);
    must(mixed_take_grads(&x, &err), &err);
    ok(value(&r, x.grads, DT_F32, 5) == first, "its gradients are the model's");
    const struct sgd_args a = {.lr = 0x1p-16, .grad_scale = 1, .first = true};
    for (int i = 0; i < TIMES; i++)
        must(r.d->ops->sgd(r.d, DT_F32, x.weights, momentum, x.grads,
                           plan.params, &a, &err),
             &err);
    double now = value(&r, x.weights, DT_F32, 5);
    ok(fabs(now / first - (1 - (double)TIMES * 0x1p-16)) < 1e-5,
       "%d small changes: %g of %g", TIMES, now, first);
    for (int i = 0; i < TIMES; i++)
        must(r.d->ops->sgd(r.d, DT_BF16, pure, momentum, model_grads(r.m),
                           plan.params, &a, &err),
             &err);
    ok(value(&r, pure, DT_BF16, 5) == first, "bf16 alone sees none of them");
    must(mixed_give_weights(&x, &err), &err);
    double want[1];
    dtype_set(DT_BF16, want, 0, now);
    ok(value(&r, pure, DT_BF16, 5) == dtype_get(DT_BF16, want, 0),
       "the model gets the sum, rounded");
    r.d->ops->release(r.d, momentum);
    mixed_clear(&x);
    mixed_clear(&x);
    rig_clear(&r);
}

int main(void)
{
    test_scale();
    test_weights();
    return tap_done();
}
