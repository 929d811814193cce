/* ema.c - see ema.h. */
#include "worker/train/ema.h"

#include <math.h>
#include <string.h>

int64_t ema_bytes(const struct model_plan *plan, enum dtype dt, double decay)
{
    int64_t acc = (int64_t)dtype_acc_bytes(dt);
    if (decay <= 0)
        return 0;
    return plan->params * (acc + (int64_t)dtype_bytes(dt)) +
           2 * plan->running * acc;
}

int ema_init(struct ema *ret, struct device *dev, struct model *model,
             enum dtype dt, const void *weights, double decay,
             struct error *err)
{
    const struct model_plan *p = model_planned(model);
    size_t acc = dtype_acc_bytes(dt), n = (size_t)p->params;
    size_t running = (size_t)p->running * acc;
    struct ema e = {.dev = dev,
                    .model = model,
                    .dt = dt,
                    .weights = weights != NULL ? weights : model_params(model),
                    .weights_dt = weights != NULL ? DT_F32 : dt,
                    .decay = decay};
    memset(ret, 0, sizeof(*ret));
    if (decay <= 0)
        return 0;
    if (dev->ops->alloc(dev, n * acc, &e.mean, err) < 0 ||
        dev->ops->alloc(dev, running, &e.running, err) < 0 ||
        dev->ops->alloc(dev, n * dtype_bytes(dt), &e.kept_mean, err) < 0 ||
        dev->ops->alloc(dev, running, &e.kept_running, err) < 0) {
        ema_clear(&e);
        return error_wrap(err, "mean of the weights");
    }
    *ret = e;
    return 0;
}

void ema_clear(struct ema *e)
{
    if (e->dev == NULL)
        return;
    e->dev->ops->release(e->dev, e->mean);
    e->dev->ops->release(e->dev, e->running);
    e->dev->ops->release(e->dev, e->kept_mean);
    e->dev->ops->release(e->dev, e->kept_running);
    memset(e, 0, sizeof(*e));
}

int ema_update(struct ema *e, bool is_first, struct error *err)
{
    if (e->dev == NULL)
        return 0;
    const struct device_ops *ops = e->dev->ops;
    const struct model_plan *p = model_planned(e->model);
    double decay = is_first ? 0 : e->decay;
    if (ops->ema(e->dev, e->weights_dt, e->mean, e->weights, p->params, decay,
                 err) < 0)
        return -1;
    /* The statistics are kept in A, so their mean is one of A. */
    return ops->ema(e->dev, dtype_acc(e->dt), e->running,
                    model_running(e->model), p->running, decay, err);
}

int ema_show(struct ema *e, bool on, struct error *err)
{
    if (e->dev == NULL)
        return 0;
    const struct device_ops *ops = e->dev->ops;
    const struct model_plan *p = model_planned(e->model);
    void *params = model_params(e->model), *running = model_running(e->model);
    size_t bytes = (size_t)p->params * dtype_bytes(e->dt);
    size_t acc = (size_t)p->running * dtype_acc_bytes(e->dt);
    if (!on)
        return ops->copy(e->dev, params, e->kept_mean, bytes, err) < 0
                   ? -1
                   : ops->copy(e->dev, running, e->kept_running, acc, err);
    if (ops->copy(e->dev, e->kept_mean, params, bytes, err) < 0 ||
        ops->copy(e->dev, e->kept_running, running, acc, err) < 0 ||
        ops->cast(e->dev, e->dt, params, dtype_acc(e->dt), e->mean, p->params,
                  err) < 0)
        return -1;
    return ops->copy(e->dev, running, e->running, acc, err);
}

double ema_rest(double decay, int64_t updates)
{
    return decay > 0 ? pow(decay, (double)updates) : 0;
}
