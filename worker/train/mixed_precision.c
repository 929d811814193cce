/* mixed_precision.c - see mixed_precision.h. */
#include "worker/train/mixed_precision.h"

#include <string.h>

static int64_t n_grads(const struct model_plan *plan)
{
    return plan->parts > 0 ? plan->parts : plan->params;
}

int64_t mixed_bytes(const struct model_plan *plan)
{
    return (plan->params + n_grads(plan)) * (int64_t)sizeof(float);
}

int mixed_init(struct mixed *ret, struct device *dev, struct model *model,
               enum dtype dt, struct error *err)
{
    const struct model_plan *p = model_planned(model);
    const size_t weights = (size_t)p->params * sizeof(float);
    const size_t grads = (size_t)n_grads(p) * sizeof(float);
    struct mixed x = {.dev = dev, .model = model, .dt = dt};
    if (dev->ops->alloc(dev, weights, &x.weights, err) < 0 ||
        dev->ops->alloc(dev, grads, &x.grads, err) < 0) {
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

int mixed_take_part(struct mixed *x, const void *from, int64_t count,
                    struct error *err)
{
    return x->dev->ops->cast(x->dev, DT_F32, x->grads, x->dt, from, count, err);
}

int mixed_give_part(struct mixed *x, int64_t first, int64_t count,
                    struct error *err)
{
    char *to =
        (char *)model_params(x->model) + (size_t)first * dtype_bytes(x->dt);
    return x->dev->ops->cast(x->dev, x->dt, to, DT_F32,
                             (const float *)x->weights + first, count, err);
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
