/* mobilenet_forward.c - the forward pass: 52 rows of the table, pooling,
 * classifier.
 *
 * In NHWC a 1x1 convolution is one matrix product over all pixels; the stem
 * becomes one through its patches (im2col). ReLU6 is the norm's clamp. Norms
 * are applied by the convolution that reads (kernels/exec/exec_norm.h).
 */
#include "worker/cv/mobilenet_internal.h"

static const double bn_eps = 1e-5, bn_momentum = 0.1; /* torch's defaults */

/* z of the stem, by its patches. A device that wants padded rows gets padded
 * weights as well: zeros add nothing. */
static int stem(struct mobilenet *m, const void *x, int32_t n,
                const struct norm_stats *stats, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const enum dtype dt = m->conf.dt;
    const struct layer *l = &m->arch.layers[0];
    const struct conv3 shape = layer_conv3(l, n);
    const int32_t columns = m->stem_columns;
    const void *w = at_t(m, m->mem.params, l->weight);
    if (ops->im2col3(m->d, dt, m->mem.col, columns, x, &shape, err) < 0)
        return -1;
    if (m->mem.wide && ops->pad_rows(m->d, dt, m->mem.wide, columns, w,
                                     9 * l->cin, l->cout, err) < 0)
        return -1;
    return ops->pw_fwd(m->d, dt, m->mem.acts[0].z, stats, NULL, m->mem.col,
                       NULL, NULL, m->mem.wide ? m->mem.wide : w,
                       layer_rows(l, n), columns, l->cout, err);
}

/* z of row i, from the z of the row before and that one's norm. */
static int convolve(struct mobilenet *m, int32_t i, const void *x, int32_t n,
                    const struct norm_stats *stats, bool train,
                    struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct layer *l = &m->arch.layers[i];
    const void *w = at_t(m, m->mem.params, l->weight);
    const struct conv3 shape = layer_conv3(l, n);
    const int64_t rows = layer_rows(l, n);
    void *z = m->mem.acts[i].z;
    if (l->kind == LAYER_STEM)
        return stem(m, x, n, stats, err);
    const struct acts *from = &m->mem.acts[i - 1];
    const struct norm in = row_norm(m, i - 1, train);
    const int32_t skip = m->arch.layers[i - 1].skip;
    if (l->kind == LAYER_DEPTHWISE && from->y != NULL)
        return ops->norm_apply(m->d, m->conf.dt, from->y, from->z, &in, NULL,
                               layer_rows(l - 1, n), l->cin, err) < 0
                   ? -1
                   : ops->dw_fwd(m->d, m->conf.dt, z, stats, from->y, NULL, w,
                                 &shape, err);
    if (l->kind == LAYER_DEPTHWISE)
        return ops->dw_fwd(m->d, m->conf.dt, z, stats, from->z, &in, w, &shape,
                           err);
    return ops->pw_fwd(m->d, m->conf.dt, z, stats, from->y, from->z, &in,
                       skip >= 0 ? m->mem.acts[skip].y : NULL, w, rows, l->cin,
                       l->cout, err);
}

static int one_row(struct mobilenet *m, int32_t i, const void *x, int32_t n,
                   bool train, struct error *err)
{
    const struct layer *l = &m->arch.layers[i];
    const struct acts *a = &m->mem.acts[i];
    void *mean = at_a(m, m->mem.running, l->mean);
    void *var = at_a(m, m->mem.running, l->var);
    const struct norm_stats stats = {
        .mean = a->mean,
        .rstd = a->rstd,
        .run_mean = mean,
        .run_var = var,
        .eps = bn_eps,
        .momentum = bn_momentum,
    };
    if (!train && m->d->ops->norm_rstd(m->d, m->conf.dt, a->rstd, var, l->cout,
                                       bn_eps, err) < 0)
        return -1;
    return convolve(m, i, x, n, train ? &stats : NULL, train, err);
}

static int extract(struct mobilenet *m, const void *x, int32_t n, bool train,
                   struct error *err)
{
    const int32_t last = ARCH_LAYERS - 1;
    const struct layer *l = &m->arch.layers[last];
    for (int32_t i = 0; i < ARCH_LAYERS; i++)
        if (one_row(m, i, x, n, train, err) < 0)
            return error_wrap(err, "%s", m->arch.layers[i].conv);
    const struct norm norm = row_norm(m, last, train);
    return m->d->ops->norm_apply(m->d, m->conf.dt, m->mem.acts[last].y,
                                 m->mem.acts[last].z, &norm, NULL,
                                 layer_rows(l, n), l->cout, err);
}

static int classify(struct mobilenet *m, int32_t n, bool train,
                    struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const enum dtype dt = m->conf.dt;
    const struct layer *last = &m->arch.layers[ARCH_LAYERS - 1];
    const int32_t f = m->arch.features, classes = m->conf.num_classes;
    void *x = m->mem.pooled;
    if (ops->avgpool_fwd(m->d, dt, x, m->mem.acts[ARCH_LAYERS - 1].y, n,
                         last->out_side * last->out_side, f, err) < 0)
        return -1;
    if (train && m->mem.dropped) {
        if (ops->dropout(m->d, dt, m->mem.dropped, x, (int64_t)n * f,
                         m->conf.dropout, m->mem.seed, 0, err) < 0)
            return -1;
        x = m->mem.dropped;
    }
    if (ops->gemm(m->d, dt, false, true, n, classes, f, 1, x, f,
                  at_t(m, m->mem.params, m->arch.fc_weight), f, 0,
                  m->mem.logits, classes, err) < 0)
        return -1;
    return ops->bias_fwd(m->d, dt, m->mem.logits,
                         at_t(m, m->mem.params, m->arch.fc_bias), n, classes,
                         err);
}

static int check(const struct mobilenet *m, int32_t n, bool train,
                 struct error *err)
{
    if (n < 1 || n > m->conf.batch)
        return error_set(err, ERR_INVAL, "model: %d samples, at most %d", n,
                         m->conf.batch);
    int32_t side = m->arch.layers[ARCH_LAYERS - 1].out_side;
    if (train && (int64_t)n * side * side < 2)
        return error_set(err, ERR_INVAL,
                         "model: batch norm needs more than 1 value per "
                         "channel when training: 1 sample at image size %d "
                         "gives 1; use at least 2 samples",
                         m->conf.image_size);
    return 0;
}

/* A pass that is captured comes here once more when it is launched. */
static void note(struct mobilenet *m, int32_t n, bool train)
{
    m->n = n;
    m->train = train;
    m->counts = train;
}

int mobilenet_put(struct model *model, uint64_t seed, double scale,
                  struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    if (m->d->ops->put(m->d, m->mem.seed, &seed, sizeof(seed), err) < 0)
        return -1;
    return m->d->ops->put(m->d, m->mem.scale, &scale, sizeof(scale), err);
}

void mobilenet_repeat(struct model *model, const struct batch *b, bool train)
{
    struct mobilenet *m = mobilenet_of(model);
    note(m, b->n, train);
    m->train = false; /* the backward pass is over, too */
}

int mobilenet_forward(struct model *model, const struct batch *b, bool train,
                      struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    const int32_t *label = b->arrays[IMAGE_LABEL].data;
    const int32_t n = b->n;
    if (check(m, n, train, err) < 0)
        return -1;
    m->n = 0; /* until it is known to have worked */
    if (extract(m, b->arrays[IMAGE_X].data, n, train, err) < 0 ||
        classify(m, n, train, err) < 0 ||
        m->d->ops->xent(m->d, m->conf.dt, m->mem.loss, m->mem.hit,
                        m->mem.logits, label, n, m->conf.num_classes, NULL,
                        train ? m->conf.label_smoothing : 0, false, err) < 0)
        return error_wrap(err, "forward");
    m->label = label;
    note(m, n, train);
    return 0;
}
