/* optimizer.c - see optimizer.h. */
#include "worker/train/optimizer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/model.h"
#include "worker/train/optimizer_state8.h"

/* The state in the order of the device's arguments, where it is there. */
static int32_t names_of(const struct job_spec *spec,
                        const char *ret[OPTIM_ARRAYS])
{
    int32_t n = 0;
    switch (spec->train.optimizer.name) {
    case OPTIM_SGD:
        ret[n++] = "momentum_buffer";
        break;
    case OPTIM_ADAMW:
    case OPTIM_ADAMW8:
        ret[n++] = "exp_avg";
        ret[n++] = "exp_avg_sq";
        break;
    case OPTIM_RMSPROP:
        ret[n++] = "square_avg";
        if (spec->train.optimizer.momentum > 0)
            ret[n++] = "momentum_buffer";
        if (spec->train.optimizer.centered)
            ret[n++] = "grad_avg";
        break;
    }
    return n;
}

bool optimizer_is_8bit(const struct job_spec *spec)
{
    return spec->train.optimizer.name == OPTIM_ADAMW8;
}

/* Each range may end with a block that is not full. Few ranges have room for
 * MODEL_RANGES: a checkpoint has it, too. */
static int64_t blocks_of(int64_t n, int32_t ranges)
{
    return state8_blocks(n) + (ranges > MODEL_RANGES ? ranges : MODEL_RANGES);
}

int64_t optimizer_bytes(const struct job_spec *spec, enum dtype dt, int64_t n,
                        int32_t ranges)
{
    const char *names[OPTIM_ARRAYS];
    const int64_t arrays = names_of(spec, names);
    const int64_t scalars =
        (int64_t)(sizeof(double) + sizeof(struct optim_now));
    if (optimizer_is_8bit(spec))
        return arrays * (n + blocks_of(n, ranges) * (int64_t)sizeof(float)) +
               (int64_t)sizeof(float[STATE8_MAPS][STATE8_CODES]) + scalars;
    return arrays * n * (int64_t)dtype_acc_bytes(dt) + scalars;
}

double optimizer_moves(const struct job_spec *spec, enum dtype dt, int64_t n)
{
    const char *names[OPTIM_ARRAYS];
    const bool is_plain = spec->train.optimizer.name == OPTIM_SGD &&
                          spec->train.optimizer.momentum == 0;
    const int32_t arrays = is_plain ? 0 : names_of(spec, names);
    const size_t each = optimizer_is_8bit(spec) ? 1 : dtype_acc_bytes(dt);
    return 2 * (double)n *
           ((double)dtype_bytes(dt) + (double)arrays * (double)each);
}

static int fill_blocks(struct optimizer *o, struct error *err)
{
    float maps[STATE8_MAPS][STATE8_CODES];
    const struct device_ops *ops = o->dev->ops;
    void *p = NULL;
    int64_t block = 0;
    o->blocks = blocks_of(o->n, o->n_ranges);
    const size_t bytes = (size_t)o->blocks * sizeof(float);
    o->first_block = calloc((size_t)o->n_ranges + 1, sizeof(*o->first_block));
    if (o->first_block == NULL)
        return error_set(err, ERR_NOMEM, "blocks of the state");
    state8_maps(maps);
    if (ops->alloc(o->dev, sizeof(maps), &p, err) < 0)
        return -1;
    o->maps = p;
    if (ops->to_device(o->dev, p, maps, sizeof(maps), err) < 0 ||
        ops->sync(o->dev, err) < 0)
        return -1;
    for (int32_t i = 0; i < o->n_state; i++) {
        if (ops->alloc(o->dev, bytes, &p, err) < 0)
            return -1;
        o->state[i].most = p;
    }
    for (int32_t i = 0; i < o->n_ranges; i++) {
        o->first_block[i] = block;
        block += state8_blocks(o->ranges[i].count);
    }
    assert(block <= o->blocks);
    return 0;
}

static int fill(struct optimizer *o, const struct optimizer_range *ranges,
                int32_t n_ranges, struct error *err)
{
    const char *names[OPTIM_ARRAYS];
    struct device *dev = o->dev;
    const bool is_8bit = optimizer_is_8bit(o->spec);
    size_t bytes = (size_t)o->n * (is_8bit ? 1 : dtype_acc_bytes(o->dt));
    int32_t n = names_of(o->spec, names);
    for (; o->n_state < n; o->n_state++) {
        struct optimizer_array *a = &o->state[o->n_state];
        a->name = names[o->n_state];
        if (dev->ops->alloc(dev, bytes, &a->data, err) < 0)
            return -1;
    }
    void *now = NULL;
    if (dev->ops->alloc(dev, sizeof(double), &o->sum, err) < 0 ||
        dev->ops->alloc(dev, sizeof(struct optim_now), &now, err) < 0)
        return -1;
    o->now = now;
    o->ranges = calloc((size_t)n_ranges + 1, sizeof(*o->ranges));
    if (o->ranges == NULL)
        return error_set(err, ERR_NOMEM, "ranges");
    const bool all_decay = o->spec->train.optimizer.no_decay == NO_DECAY_NONE ||
                           o->spec->train.optimizer.weight_decay == 0;
    if (all_decay && !is_8bit) {
        o->ranges[o->n_ranges++] = (struct optimizer_range){.count = o->n};
        return 0;
    }
    memcpy(o->ranges, ranges, (size_t)n_ranges * sizeof(*ranges));
    o->n_ranges = n_ranges;
    for (int32_t i = 0; i < n_ranges && all_decay; i++)
        o->ranges[i].is_exempt = false;
    return is_8bit ? fill_blocks(o, err) : 0;
}

int optimizer_init(struct optimizer *ret, struct device *dev,
                   const struct job_spec *spec, enum dtype dt, int64_t n,
                   const struct optimizer_range *ranges, int32_t n_ranges,
                   struct error *err)
{
    struct optimizer o = {.dev = dev, .spec = spec, .dt = dt, .n = n};
    if (fill(&o, ranges, n_ranges, err) < 0) {
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
    for (int32_t i = 0; i < OPTIM_ARRAYS; i++) {
        o->dev->ops->release(o->dev, o->state[i].data);
        o->dev->ops->release(o->dev, o->state[i].most);
    }
    o->dev->ops->release(o->dev, o->maps);
    o->dev->ops->release(o->dev, o->sum);
    o->dev->ops->release(o->dev, o->now);
    free(o->ranges);
    free(o->first_block);
    memset(o, 0, sizeof(*o));
}

/* Arguments of one call of the device. */
struct part {
    void *p, *state[OPTIM_ARRAYS];
    const void *g;
    int64_t n;
    int64_t block; /* of adamw8bit, the first */
    double weight_decay;
};

static int step_sgd(struct optimizer *o, const struct part *x,
                    struct error *err)
{
    struct sgd_args a = {.momentum = o->spec->train.optimizer.momentum,
                         .weight_decay = x->weight_decay,
                         .nesterov = o->spec->train.optimizer.nesterov,
                         .now = o->now};
    return o->dev->ops->sgd(o->dev, o->dt, x->p, x->state[0], x->g, x->n, &a,
                            err);
}

static struct adamw_args adamw_of(const struct optimizer *o,
                                  const struct part *x)
{
    return (struct adamw_args){.beta1 = o->spec->train.optimizer.betas.v[0],
                               .beta2 = o->spec->train.optimizer.betas.v[1],
                               .eps = o->spec->train.optimizer.eps,
                               .weight_decay = x->weight_decay,
                               .now = o->now};
}

static int step_adamw8(struct optimizer *o, const struct part *x,
                       struct error *err)
{
    const struct adamw_args a = adamw_of(o, x);
    return o->dev->ops->adamw8(o->dev, o->dt, x->p, x->state[0], x->state[1],
                               o->state[0].most + x->block,
                               o->state[1].most + x->block, x->g, o->maps, x->n,
                               &a, err);
}

static int step_adamw(struct optimizer *o, const struct part *x,
                      struct error *err)
{
    const struct adamw_args a = adamw_of(o, x);
    return o->dev->ops->adamw(o->dev, o->dt, x->p, x->state[0], x->state[1],
                              x->g, x->n, &a, err);
}

static int step_rmsprop(struct optimizer *o, const struct part *x,
                        struct error *err)
{
    bool has_momentum = o->spec->train.optimizer.momentum > 0;
    struct rmsprop_args a = {.alpha = o->spec->train.optimizer.alpha,
                             .eps = o->spec->train.optimizer.eps,
                             .momentum = o->spec->train.optimizer.momentum,
                             .weight_decay = x->weight_decay,
                             .now = o->now};
    return o->dev->ops->rmsprop(
        o->dev, o->dt, x->p, x->state[0], has_momentum ? x->state[1] : NULL,
        o->spec->train.optimizer.centered ? x->state[has_momentum ? 2 : 1]
                                          : NULL,
        x->g, x->n, &a, err);
}

int optimizer_put(struct optimizer *o, int64_t step, double lr,
                  double grad_scale, struct error *err)
{
    const double *beta = o->spec->train.optimizer.betas.v;
    bool is_adamw = o->spec->train.optimizer.name == OPTIM_ADAMW ||
                    optimizer_is_8bit(o->spec);
    /* The means start at zero; dividing by what they can have reached by
     * now undoes it. */
    const struct optim_now now = {
        .lr = lr,
        .grad_scale = grad_scale,
        .reach1 = is_adamw ? 1 - pow(beta[0], (double)step) : 1,
        .reach2 = is_adamw ? 1 - pow(beta[1], (double)step) : 1,
        .first = step == 1};
    return o->dev->ops->put(o->dev, o->now, &now, sizeof(now), err);
}

int optimizer_step(struct optimizer *o, void *params, const void *grads,
                   int64_t step, double lr, double grad_scale,
                   struct error *err)
{
    if (optimizer_put(o, step, lr, grad_scale, err) < 0)
        return -1;
    return optimizer_step_only(o, params, grads, err);
}

int optimizer_step_only(struct optimizer *o, void *params, const void *grads,
                        struct error *err)
{
    return optimizer_step_part(o, params, grads, 0, o->n, err);
}

int optimizer_step_part(struct optimizer *o, void *params, const void *grads,
                        int64_t first, int64_t count, struct error *err)
{
    static int (*const steps[])(struct optimizer * o, const struct part *x,
                                struct error *err) = {
        [OPTIM_SGD] = step_sgd,
        [OPTIM_ADAMW] = step_adamw,
        [OPTIM_RMSPROP] = step_rmsprop,
        [OPTIM_ADAMW8] = step_adamw8,
    };
    const bool is_8bit = optimizer_is_8bit(o->spec);
    size_t t = dtype_bytes(o->dt), acc = dtype_acc_bytes(o->dt);
    double decay = o->spec->train.optimizer.weight_decay;
    for (int32_t i = 0; i < o->n_ranges; i++) {
        const struct optimizer_range *r = &o->ranges[i];
        const int64_t end = r->first + r->count;
        const int64_t from = r->first > first ? r->first : first;
        const int64_t to = end < first + count ? end : first + count;
        if (to <= from)
            continue;
        struct part x = {.p = (char *)params + (size_t)from * t,
                         .g = (const char *)grads + (size_t)(from - first) * t,
                         .n = to - from,
                         .block = is_8bit ? o->first_block[i] : 0,
                         .weight_decay = r->is_exempt ? 0 : decay};
        assert(!is_8bit || x.n == r->count);
        for (int32_t k = 0; k < o->n_state; k++)
            x.state[k] =
                (char *)o->state[k].data + (size_t)from * (is_8bit ? 1 : acc);
        if (steps[o->spec->train.optimizer.name](o, &x, err) < 0)
            return -1;
    }
    return 0;
}

int optimizer_grad_norm(struct optimizer *o, const void *grads, double *ret,
                        struct error *err)
{
    double sum = 0;
    if (o->dev->ops->sum_squares(o->dev, o->dt, o->sum, grads, o->n, err) < 0 ||
        o->dev->ops->to_host(o->dev, &sum, o->sum, sizeof(sum), err) < 0)
        return error_wrap(err, "norm of the gradient");
    *ret = sqrt(sum);
    return 0;
}

double optimizer_clip(double norm, double max)
{
    if (max <= 0)
        return 1;
    double scale = max / (norm + 1e-6);
    return scale > 1 ? 1 : scale; /* a NaN stays one */
}
