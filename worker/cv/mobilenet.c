/* mobilenet.c - memory of the model: the plan, the arena, and the state that
 * outlives a step.
 *
 * lay_out() gives every array its place. It runs with base 0 for the plan
 * and with the real base afterwards, so the plan cannot differ from what is
 * used, but for the padding of a GPU's patches, which the plan counts with the
 * scratch. The arena is one allocation: either a job fits or it is refused
 * before its first step.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/cv/mobilenet_internal.h"

enum {
    ALIGN = 256,
    GPU_ROW_BYTES = 16, /* a GPU's device.row_bytes */
    /* Of each layer its weights, and its norm with its bias. */
    RANGES = 2 * (ARCH_LAYERS + 1)
};

struct cursor {
    char *base; /* NULL: only count */
    size_t at;
};

static void *take(struct cursor *c, int64_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += ((size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

/* How much larger the stem's arrays are on a GPU, which pads their columns. */
static int64_t padding_bytes(const struct mobilenet_conf *conf,
                             const struct layer *stem, int32_t columns)
{
    const struct device gpu = {.row_bytes = GPU_ROW_BYTES};
    const int32_t wide = device_columns(&gpu, conf->dt, 9 * stem->cin);
    return columns == wide ? 0
                           : (layer_rows(stem, conf->batch) * (wide - columns) +
                              (int64_t)stem->cout * wide) *
                                 (int64_t)dtype_bytes(conf->dt);
}

/* Lays out the arena; a patch of the stem has `columns` columns. */
static void lay_out(const struct mobilenet_conf *conf, const struct arch *a,
                    int32_t columns, void *base, struct arena *ret,
                    struct model_plan *plan)
{
    const size_t t = dtype_bytes(conf->dt), acc = dtype_acc_bytes(conf->dt);
    const int64_t n = conf->batch;
    struct cursor c = {.base = base};
    size_t mark;

    ret->params = take(&c, a->params, t);
    ret->running = take(&c, a->running, acc);
    *plan = (struct model_plan){.bytes_base = 0};
    plan->bytes_params = (int64_t)(mark = c.at);
    ret->grads = take(&c, a->params, t);
    plan->bytes_grads = (int64_t)(c.at - mark);
    mark = c.at;

    int64_t largest = 0, widest = 0;
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a->layers[i];
        int64_t elems = layer_rows(l, conf->batch) * l->cout;
        largest = elems > largest ? elems : largest;
        int64_t pair = layer_rows(l, conf->batch) * (l->cin + l->cout);
        widest = pair > widest ? pair : widest;
        ret->acts[i].z = take(&c, elems, t);
        ret->acts[i].y = row_keeps_y(a, i) ? take(&c, elems, t) : NULL;
        ret->acts[i].mean = take(&c, l->cout, acc);
        ret->acts[i].rstd = take(&c, l->cout, acc);
        ret->acts[i].sums = take(&c, (int64_t)2 * l->cout, acc);
    }
    const struct layer *stem = &a->layers[0];
    ret->col = take(&c, layer_rows(stem, conf->batch) * columns, t);
    ret->wide = columns > 9 * stem->cin
                    ? take(&c, (int64_t)stem->cout * columns, t)
                    : NULL;
    ret->pooled = take(&c, n * a->features, t);
    ret->dropped = conf->dropout > 0 ? take(&c, n * a->features, t) : NULL;
    ret->logits = take(&c, n * conf->num_classes, t);
    ret->loss = take(&c, n, acc);
    ret->hit = take(&c, n, sizeof(*ret->hit));
    ret->seed = take(&c, 1, sizeof(*ret->seed));
    ret->scale = take(&c, 1, sizeof(*ret->scale));
    plan->bytes_activations = (int64_t)(c.at - mark);
    mark = c.at;

    ret->dpooled = take(&c, n * a->features, t);
    for (int32_t i = 0; i < MODEL_DY; i++)
        ret->dy[i] = take(&c, largest, t);
    plan->bytes_work = (int64_t)(c.at - mark);
    plan->bytes_total = (int64_t)c.at;
    plan->bytes_scratch =
        widest * (int64_t)t + padding_bytes(conf, stem, columns);
    plan->params = a->params;
    plan->ranges = RANGES;
    plan->state = a->running;
}

int mobilenet_plan(const struct mobilenet_conf *conf, struct model_plan *ret,
                   struct error *err)
{
    struct arch a;
    struct arena unused;
    if (arch_build(conf, &a, err) < 0)
        return -1;
    lay_out(conf, &a, 9 * a.layers[0].cin, NULL, &unused, ret);
    return 0;
}

static void destroy(struct model *model)
{
    struct mobilenet *m = mobilenet_of(model);
    m->d->ops->release(m->d, m->memory);
    free(m->host);
    free(m);
}

static void *params(struct model *model)
{
    return mobilenet_of(model)->mem.params;
}

static void *grads(struct model *model)
{
    return mobilenet_of(model)->mem.grads;
}

static void *state(struct model *model)
{
    return mobilenet_of(model)->mem.running;
}

static const struct model_plan *planned(const struct model *model)
{
    return &((const struct mobilenet *)model)->plan;
}

/* Convolutions and the classifier's weights, and between them the norms' and
 * the biases. */
static int32_t ranges(const struct model *model, struct model_range *ret,
                      int32_t cap)
{
    const struct arch *a = &((const struct mobilenet *)model)->arch;
    struct model_range all[RANGES];
    int32_t n = 0;
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &a->layers[i];
        all[n++] = (struct model_range){l->weight, l->weights, false};
        all[n++] =
            (struct model_range){l->gamma, l->beta + l->cout - l->gamma, true};
    }
    all[n++] =
        (struct model_range){a->fc_weight, a->fc_bias - a->fc_weight, false};
    all[n++] = (struct model_range){a->fc_bias, a->params - a->fc_bias, true};
    for (int32_t i = 0; i < RANGES && i < cap; i++)
        ret[i] = all[i];
    return RANGES;
}

static int check_last(const struct mobilenet *m, int32_t n, struct error *err)
{
    if (m->n == 0 || n != m->n)
        return error_set(err, ERR_STATE,
                         "model: the last forward pass had %d samples, not %d",
                         m->n, n);
    return 0;
}

static int result(struct model *model, const struct batch *b,
                  struct model_result *ret, struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    const int32_t n = b->n;
    if (check_last(m, n, err) < 0)
        return -1;
    /* Both at once: each copy waits for the device. */
    size_t apart = (size_t)((char *)m->mem.hit - (char *)m->mem.loss);
    if (m->d->ops->to_host(m->d, m->host, m->mem.loss,
                           apart + (size_t)n * sizeof(*m->mem.hit), err) < 0)
        return -1;
    const enum dtype acc = dtype_acc(m->conf.dt);
    const int32_t *hit = (void *)((char *)m->host + apart);
    struct model_result sum = {.loss_sum = 0};
    for (int32_t i = 0; i < n; i++) {
        sum.loss_sum += dtype_get(acc, m->host, i);
        sum.hits += hit[i];
    }
    for (int32_t i = 0; m->counts && i < ARCH_LAYERS; i++)
        m->tracked[i]++;
    m->counts = false;
    *ret = sum;
    return 0;
}

static void describe(const struct model *model, char *ret, size_t cap)
{
    const struct mobilenet *m = (const struct mobilenet *)model;
    (void)snprintf(ret, cap, "MobileNetV2: %" PRId64 " parameters, %d classes",
                   m->plan.params, m->conf.num_classes);
}

static const struct model_ops ops = {
    .can_repeat = true,
    .destroy = destroy,
    .init = mobilenet_init,
    .put = mobilenet_put,
    .forward = mobilenet_forward,
    .backward = mobilenet_backward,
    .repeat = mobilenet_repeat,
    .result = result,
    .floor = mobilenet_floor,
    .params = params,
    .grads = grads,
    .state = state,
    .planned = planned,
    .ranges = ranges,
    .export = mobilenet_export,
    .import = mobilenet_import,
    .describe = describe,
};

int mobilenet_create(struct device *d, const struct mobilenet_conf *conf,
                     struct model **ret, struct error *err)
{
    struct mobilenet *m = calloc(1, sizeof(*m));
    if (!m)
        return error_set(err, ERR_NOMEM, "model");
    m->model.ops = &ops;
    m->d = d;
    m->conf = *conf;
    if (arch_build(conf, &m->arch, err) < 0)
        goto fail;
    m->stem_columns = device_columns(d, conf->dt, 9 * m->arch.layers[0].cin);
    lay_out(conf, &m->arch, m->stem_columns, NULL, &m->mem, &m->plan);
    /* Losses and hits, as they lie in the arena, or logits. */
    m->host = malloc((size_t)conf->batch * ((size_t)conf->num_classes + 2) *
                         sizeof(double) +
                     ALIGN);
    if (!m->host) {
        (void)error_set(err, ERR_NOMEM, "model: host memory for the results");
        goto fail;
    }
    if (d->ops->alloc(d, (size_t)m->plan.bytes_total, &m->memory, err) < 0) {
        (void)error_wrap(err, "model of %lld bytes at batch %d",
                         (long long)m->plan.bytes_total, conf->batch);
        goto fail;
    }
    lay_out(conf, &m->arch, m->stem_columns, m->memory, &m->mem, &m->plan);
    *ret = &m->model;
    return 0;
fail:
    destroy(&m->model);
    return -1;
}

int mobilenet_logits(struct model *model, int32_t n, double *ret,
                     struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    if (check_last(m, n, err) < 0)
        return -1;
    int64_t elems = (int64_t)n * m->conf.num_classes;
    if (m->d->ops->to_host(m->d, m->host, m->mem.logits,
                           (size_t)elems * dtype_bytes(m->conf.dt), err) < 0)
        return -1;
    for (int64_t i = 0; i < elems; i++)
        ret[i] = dtype_get(m->conf.dt, m->host, i);
    return 0;
}

/* ---- the kind ------------------------------------------------------------ */

static struct mobilenet_conf conf_of(const struct job_spec *spec, enum dtype dt,
                                     const struct batch_info *data)
{
    return (struct mobilenet_conf){
        .dt = dt,
        .width_mult = spec->model.width_mult,
        .dropout = spec->model.dropout,
        .label_smoothing = spec->train.label_smoothing,
        .num_classes = data->classes,
        .in_channels = spec->model.in_channels,
        .image_size = spec->dataset.image_size,
        .batch = spec->train.batch_size,
    };
}

static int plan_of_job(const struct job_spec *spec, enum dtype dt,
                       const struct batch_info *data, int32_t ranks,
                       struct model_plan *ret, struct error *err)
{
    const struct mobilenet_conf conf = conf_of(spec, dt, data);
    (void)ranks;
    return mobilenet_plan(&conf, ret, err);
}

static int create_of_job(struct device *d, struct comm *comm,
                         const struct job_spec *spec, enum dtype dt,
                         const struct batch_info *data, struct model **ret,
                         struct error *err)
{
    const struct mobilenet_conf conf = conf_of(spec, dt, data);
    (void)comm;
    return mobilenet_create(d, &conf, ret, err);
}

const struct model_kind mobilenet_kind = {
    .name = "cv",
    .too_large = "lower train.batch_size or dataset.image_size",
    .open_data = image_batches_open,
    .plan = plan_of_job,
    .create = create_of_job,
};
