/* forward.c - the forward pass: 52 rows of the table, pooling, classifier.
 *
 * In NHWC a 1x1 convolution is one matrix product over all pixels; the stem
 * becomes one through its patches (im2col). ReLU6 is the norm's clamp.
 */
#include "worker/cv/model_impl.h"

static const double bn_eps = 1e-5, bn_momentum = 0.1; /* torch's defaults */

static int convolve(struct model *m, const struct layer *l, void *z,
                    const void *x, int32_t n, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const void *w = at_t(m, m->mem.params, l->weight);
    const struct conv3 shape = layer_conv3(l, n);
    int32_t rows = (int32_t)layer_rows(l, n), k = l->cin;
    switch (l->kind) {
    case LAYER_DEPTHWISE:
        return ops->dw3_fwd(m->d, m->conf.dt, z, x, w, &shape, err);
    case LAYER_STEM:
        if (ops->im2col3(m->d, m->conf.dt, m->mem.col, x, &shape, err) < 0)
            return -1;
        x = m->mem.col;
        k = 9 * l->cin;
        break;
    case LAYER_POINTWISE:
        break;
    }
    return ops->gemm(m->d, m->conf.dt, false, true, rows, l->cout, k, 1, x, k,
                     w, k, 0, z, l->cout, err);
}

static int normalise(struct model *m, const struct layer *l,
                     const struct acts *a, int32_t n, bool train,
                     struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const void *gamma = at_t(m, m->mem.params, l->gamma);
    const void *beta = at_t(m, m->mem.params, l->beta);
    void *mean = at_a(m, m->mem.running, l->mean);
    void *var = at_a(m, m->mem.running, l->var);
    int64_t rows = layer_rows(l, n);
    if (!train)
        return ops->bn_eval(m->d, m->conf.dt, a->y, a->z, mean, var, gamma,
                            beta, rows, l->cout, bn_eps, l->cap, err);
    return ops->bn_fwd(m->d, m->conf.dt, a->y, a->mean, a->rstd, mean, var,
                       a->z, gamma, beta, rows, l->cout, bn_eps, bn_momentum,
                       l->cap, err);
}

static int extract(struct model *m, const void *x, int32_t n, bool train,
                   struct error *err)
{
    for (int32_t i = 0; i < ARCH_LAYERS; i++) {
        const struct layer *l = &m->arch.layers[i];
        const struct acts *a = &m->mem.acts[i];
        if (convolve(m, l, a->z, x, n, err) < 0 ||
            normalise(m, l, a, n, train, err) < 0)
            return error_wrap(err, "%s", l->conv);
        if (l->skip >= 0 &&
            m->d->ops->add(m->d, m->conf.dt, a->y, m->mem.acts[l->skip].y,
                           layer_rows(l, n) * l->cout, err) < 0)
            return error_wrap(err, "%s", l->conv);
        x = a->y;
    }
    return 0;
}

static int classify(struct model *m, int32_t n, bool train, uint64_t seed,
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
                         m->conf.dropout, seed, 0, err) < 0)
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

static int check(const struct model *m, int32_t n, bool train,
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

int model_forward(struct model *m, const void *x, const int32_t *label,
                  int32_t n, bool train, uint64_t seed, struct error *err)
{
    if (check(m, n, train, err) < 0)
        return -1;
    m->n = 0; /* until it is known to have worked */
    if (extract(m, x, n, train, err) < 0 ||
        classify(m, n, train, seed, err) < 0 ||
        m->d->ops->xent(m->d, m->conf.dt, m->mem.loss, m->mem.hit,
                        m->mem.logits, label, n, m->conf.num_classes, 1, false,
                        err) < 0)
        return error_wrap(err, "forward");
    for (int32_t i = 0; train && i < ARCH_LAYERS; i++)
        m->tracked[i]++;
    m->label = label;
    m->n = n;
    m->train = train;
    m->seed = seed;
    return 0;
}
