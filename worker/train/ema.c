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
           2 * plan->state * acc;
}

int ema_init(struct ema *ret, struct device *dev, struct model *model,
             enum dtype dt, const void *weights, double decay,
             struct error *err)
{
    const struct model_plan *p = model_planned(model);
    size_t acc = dtype_acc_bytes(dt), n = (size_t)p->params;
    size_t state = (size_t)p->state * acc;
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
        dev->ops->alloc(dev, n * dtype_bytes(dt), &e.kept_mean, err) < 0 ||
        (state > 0 && (dev->ops->alloc(dev, state, &e.state, err) < 0 ||
                       dev->ops->alloc(dev, state, &e.kept_state, err) < 0))) {
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
    e->dev->ops->release(e->dev, e->state);
    e->dev->ops->release(e->dev, e->kept_mean);
    e->dev->ops->release(e->dev, e->kept_state);
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
    if (p->state == 0)
        return 0;
    /* The state is kept in A, so its mean is one of A. */
    return ops->ema(e->dev, dtype_acc(e->dt), e->state, model_state(e->model),
                    p->state, decay, err);
}

static int copy_state(struct ema *e, void *dst, const void *src,
                      struct error *err)
{
    size_t n = (size_t)model_planned(e->model)->state;
    if (n == 0)
        return 0;
    return e->dev->ops->copy(e->dev, dst, src, n * dtype_acc_bytes(e->dt), err);
}

int ema_show(struct ema *e, bool on, struct error *err)
{
    if (e->dev == NULL)
        return 0;
    const struct device_ops *ops = e->dev->ops;
    const struct model_plan *p = model_planned(e->model);
    void *params = model_params(e->model), *state = model_state(e->model);
    size_t bytes = (size_t)p->params * dtype_bytes(e->dt);
    if (!on)
        return ops->copy(e->dev, params, e->kept_mean, bytes, err) < 0
                   ? -1
                   : copy_state(e, state, e->kept_state, err);
    if (ops->copy(e->dev, e->kept_mean, params, bytes, err) < 0 ||
        copy_state(e, e->kept_state, state, err) < 0 ||
        ops->cast(e->dev, e->dt, params, dtype_acc(e->dt), e->mean, p->params,
                  err) < 0)
        return -1;
    return copy_state(e, state, e->state, err);
}

double ema_rest(double decay, int64_t updates)
{
    return decay > 0 ? pow(decay, (double)updates) : 0;
}
