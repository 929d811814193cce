/* mixed_precision.c - see mixed_precision.h. */
#include "worker/train/mixed_precision.h"

#include <string.h>

int64_t mixed_bytes(const struct model_plan *plan)
{
    return 2 * plan->params * (int64_t)sizeof(float);
}

int mixed_init(struct mixed *ret, struct device *dev, struct model *model,
               enum dtype dt, struct error *err)
{
    size_t bytes = (size_t)model_planned(model)->params * sizeof(float);
    struct mixed x = {.dev = dev, .model = model, .dt = dt};
    if (dev->ops->alloc(dev, bytes, &x.weights, err) < 0 ||
        dev->ops->alloc(dev, bytes, &x.grads, err) < 0) {
        mixed_clear(&x);
        return error_wrap(err, "fp32 weights");
    }
    *ret = x;
    return 0;
}

void mixed_clear(struct mixed *x)
{
    if (x->dev == NULL)
        return;
    x->dev->ops->release(x->dev, x->weights);
    x->dev->ops->release(x->dev, x->grads);
    memset(x, 0, sizeof(*x));
}

int mixed_begin(struct mixed *x, struct error *err)
{
    return x->dev->ops->cast(x->dev, DT_F32, x->weights, x->dt,
                             model_params(x->model),
                             model_planned(x->model)->params, err);
}

int mixed_take_grads(struct mixed *x, struct error *err)
{
    return x->dev->ops->cast(x->dev, DT_F32, x->grads, x->dt,
                             model_grads(x->model),
                             model_planned(x->model)->params, err);
}

int mixed_give_weights(struct mixed *x, struct error *err)
{
    return x->dev->ops->cast(x->dev, x->dt, model_params(x->model), DT_F32,
                             x->weights, model_planned(x->model)->params, err);
}

struct loss_scale loss_scale_first(enum dtype dt, bool is_mixed)
{
    return (struct loss_scale){
        .scale = is_mixed && dt == DT_F16 ? LOSS_SCALE_FIRST : 1};
}

bool loss_scale_next(struct loss_scale *s, bool is_finite)
{
    if (!is_finite) {
        s->scale /= 2;
        s->good_steps = 0;
        return s->scale >= LOSS_SCALE_LEAST;
    }
    if (++s->good_steps >= LOSS_SCALE_GROW_AFTER) {
        s->scale *= 2;
        s->good_steps = 0;
    }
    return true;
}
