/* optimizer.c - see optimizer.h. */
#include "worker/optimizer.h"

#include <string.h>

/* torch.optim.AdamW's defaults; the specification does not name them. */
static const double beta1 = 0.9, beta2 = 0.999, adam_eps = 1e-8;

static int n_arrays(const struct job_spec *spec)
{
    return spec->train.optimizer.name == OPTIM_ADAMW ? 2 : 1;
}

int64_t optimizer_bytes(const struct job_spec *spec, enum dtype dt, int64_t n)
{
    return n_arrays(spec) * n * (int64_t)dtype_acc_bytes(dt);
}

int optimizer_init(struct optimizer *ret, struct device *dev,
                   const struct job_spec *spec, enum dtype dt, int64_t n,
                   struct error *err)
{
    struct optimizer o = {.dev = dev, .spec = spec, .dt = dt, .n = n};
    size_t bytes = (size_t)n * dtype_acc_bytes(dt);
    if (dev->ops->alloc(dev, bytes, &o.m, err) < 0 ||
        (n_arrays(spec) == 2 && dev->ops->alloc(dev, bytes, &o.v, err) < 0)) {
        optimizer_clear(&o);
        return error_wrap(err, "optimizer");
    }
    *ret = o;
    return 0;
}

void optimizer_clear(struct optimizer *o)
{
    if (o->dev == NULL)
        return;
    o->dev->ops->release(o->dev, o->m);
    o->dev->ops->release(o->dev, o->v);
    memset(o, 0, sizeof(*o));
}

int optimizer_step(struct optimizer *o, void *params, const void *grads,
                   int64_t step, double lr, struct error *err)
{
    const struct device_ops *ops = o->dev->ops;
    if (o->spec->train.optimizer.name == OPTIM_ADAMW) {
        struct adamw_args a = {.lr = lr,
                               .beta1 = beta1,
                               .beta2 = beta2,
                               .eps = adam_eps,
                               .weight_decay =
                                   o->spec->train.optimizer.weight_decay,
                               .grad_scale = 1,
                               .step = step};
        return ops->adamw(o->dev, o->dt, params, o->m, o->v, grads, o->n, &a,
                          err);
    }
    struct sgd_args a = {.lr = lr,
                         .momentum = o->spec->train.optimizer.momentum,
                         .weight_decay = o->spec->train.optimizer.weight_decay,
                         .grad_scale = 1,
                         .nesterov = o->spec->train.optimizer.nesterov,
                         .first = step == 1};
    return ops->sgd(o->dev, o->dt, params, o->m, grads, o->n, &a, err);
}
