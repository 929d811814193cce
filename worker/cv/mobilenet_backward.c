/* mobilenet_backward.c - the backward pass, from the loss to the stem's
 * weights.
 *
 * Three buffers hold gradients of activations, and rotate: the one that came
 * in, the one going out, and, inside a block with a skip, the one that the
 * skip carries past the block. Batch norm works in place except at a skip,
 * where what came in is still needed. The rows' own values (z, y, patches)
 * are those that forward() left.
 */
#include <assert.h>

#include "worker/cv/mobilenet_internal.h"

struct pass {
    struct mobilenet *m;
    int32_t n;
    int (*on_ready)(void *arg, int64_t first, int64_t count, struct error *err);
    void *arg;
    void *dy;         /* gradient of the current row's output */
    void *carry;      /* what a skip carries, or NULL */
    int32_t carry_to; /* the row to whose output it belongs */
};

static int ready(const struct pass *p, int64_t first, int64_t end,
                 struct error *err)
{
    return p->on_ready ? p->on_ready(p->arg, first, end - first, err) : 0;
}

/* A gradient buffer that is neither p->dy nor p->carry. */
static void *unused_dy(const struct pass *p)
{
    for (int32_t i = 0; i < MODEL_DY; i++) {
        void *b = p->m->mem.dy[i];
        if (b != p->dy && b != p->carry)
            return b;
    }
    assert(false && "three buffers are enough");
    return NULL;
}

static struct norm_grad norm_of_row(const struct mobilenet *m, int32_t i);

/* Loss, classifier, dropout and pooling; leaves p->dy. */
static int head(struct pass *p, struct error *err)
{
    struct mobilenet *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const enum dtype dt = m->conf.dt;
    const struct arch *a = &m->arch;
    const int32_t n = p->n, f = a->features, classes = m->conf.num_classes;
    const int32_t side = a->layers[ARCH_LAYERS - 1].out_side;
    void *dz = m->mem.logits, *dx = m->mem.dpooled;
    const void *x = m->mem.dropped ? m->mem.dropped : m->mem.pooled;

    if (ops->xent(m->d, dt, m->mem.loss, m->mem.hit, dz, m->label, n, classes,
                  m->mem.scale, m->conf.label_smoothing, true, err) < 0 ||
        ops->gemm(m->d, dt, true, false, classes, f, n, 1, dz, classes, x, f, 0,
                  at_t(m, m->mem.grads, a->fc_weight), f, err) < 0 ||
        ops->bias_bwd(m->d, dt, at_t(m, m->mem.grads, a->fc_bias), dz, n,
                      classes, err) < 0 ||
        ready(p, a->fc_weight, a->params, err) < 0 ||
        ops->gemm(m->d, dt, false, false, n, f, classes, 1, dz, classes,
                  at_t(m, m->mem.params, a->fc_weight), f, 0, dx, f, err) < 0)
        return -1;
    if (m->mem.dropped &&
        ops->dropout(m->d, dt, dx, dx, (int64_t)n * f, m->conf.dropout,
                     m->mem.seed, 0, err) < 0)
        return -1;
    p->dy = m->mem.dy[0];
    if (ops->avgpool_bwd(m->d, dt, p->dy, dx, n, side * side, f, err) < 0)
        return -1;
    const int32_t last = ARCH_LAYERS - 1;
    const struct norm norm = row_norm(m, last, true);
    const struct norm_grad out = norm_of_row(m, last);
    return ops->norm_grads(m->d, dt, p->dy, &out, m->mem.acts[last].z, &norm,
                           (int64_t)n * side * side, f, err);
}

/* Destination of the gradients of row i's norm. */
static struct norm_grad norm_of_row(const struct mobilenet *m, int32_t i)
{
    const struct layer *l = &m->arch.layers[i];
    return (struct norm_grad){
        .sums = m->mem.acts[i].sums,
        .dgamma = at_t(m, m->mem.grads, l->gamma),
        .dbeta = at_t(m, m->mem.grads, l->beta),
    };
}

/* The weights' gradient is padded as the patches are. */
static int stem(const struct pass *p, struct error *err)
{
    struct mobilenet *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const struct layer *l = &m->arch.layers[0];
    const struct acts *a = &m->mem.acts[0];
    const struct norm norm = row_norm(m, 0, true);
    const int32_t columns = m->stem_columns;
    void *dw = at_t(m, m->mem.grads, l->weight), *wide = m->mem.wide;
    if (ops->pw_bwd(m->d, m->conf.dt, NULL, wide ? wide : dw, NULL, p->dy, a->z,
                    &norm, a->sums, m->mem.col, NULL, NULL, NULL,
                    at_t(m, m->mem.params, l->weight), layer_rows(l, p->n),
                    columns, l->cout, err) < 0)
        return -1;
    return wide ? ops->pad_rows(m->d, m->conf.dt, dw, 9 * l->cin, wide, columns,
                                l->cout, err)
                : 0;
}

/* extra: what a skip carries that begins in front of the convolution; it is
 * added before the gate of the norm. */
static int depthwise_of_kept(const struct pass *p, int32_t i, void *dx,
                             const void *d, const void *extra,
                             struct error *err)
{
    struct mobilenet *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const struct layer *l = &m->arch.layers[i];
    const struct acts *a = &m->mem.acts[i], *from = a - 1;
    const struct norm norm = row_norm(m, i, true);
    const struct norm in = row_norm(m, i - 1, true);
    const struct norm_grad out = norm_of_row(m, i - 1);
    const struct conv3 shape = layer_conv3(l, p->n);
    int64_t rows = layer_rows(l - 1, p->n);
    if (ops->dw_bwd(m->d, m->conf.dt, dx, at_t(m, m->mem.grads, l->weight),
                    NULL, d, a->z, &norm, a->sums, from->y, NULL,
                    at_t(m, m->mem.params, l->weight), &shape, err) < 0 ||
        (extra != NULL &&
         ops->add(m->d, m->conf.dt, dx, extra, rows * l->cin, err) < 0))
        return -1;
    return ops->norm_grads(m->d, m->conf.dt, dx, &out, from->z, &in, rows,
                           l->cin, err);
}

/* Weights of row i, and p->dy := the gradient of the norm of row i - 1. */
static int convolution(struct pass *p, int32_t i, struct error *err)
{
    struct mobilenet *m = p->m;
    const struct layer *l = &m->arch.layers[i];
    const struct acts *a = &m->mem.acts[i], *from = a - 1;
    const struct norm norm = row_norm(m, i, true);
    const struct norm in = row_norm(m, i - 1, true);
    const struct norm_grad out = norm_of_row(m, i - 1);
    const struct conv3 shape = layer_conv3(l, p->n);
    const void *w = at_t(m, m->mem.params, l->weight), *d = p->dy;
    void *dw = at_t(m, m->mem.grads, l->weight), *dx = unused_dy(p);
    const void *extra = NULL;

    if (p->carry && p->carry_to == i - 1) {
        extra = p->carry;
        p->carry = NULL;
    }
    p->dy = dx;
    if (l->kind == LAYER_DEPTHWISE && from->y != NULL)
        return depthwise_of_kept(p, i, dx, d, extra, err);
    if (l->kind == LAYER_DEPTHWISE)
        return m->d->ops->dw_bwd(m->d, m->conf.dt, dx, dw, &out, d, a->z, &norm,
                                 a->sums, from->z, &in, w, &shape, err);
    return m->d->ops->pw_bwd(m->d, m->conf.dt, dx, dw, &out, d, a->z, &norm,
                             a->sums, from->y, from->z, &in, extra, w,
                             layer_rows(l, p->n), l->cin, l->cout, err);
}

static int row(struct pass *p, int32_t i, struct error *err)
{
    const struct layer *l = &p->m->arch.layers[i];
    if (l->skip >= 0) {
        assert(!p->carry);
        p->carry = p->dy;
        p->carry_to = l->skip;
    }
    /* The image needs no gradient. */
    if ((i > 0 ? convolution(p, i, err) : stem(p, err)) < 0)
        return -1;
    return ready(p, l->weight, l->beta + l->cout, err);
}

int mobilenet_backward(struct model *model, const struct batch *b,
                       int (*on_ready)(void *arg, int64_t first, int64_t count,
                                       struct error *err),
                       void *arg, struct error *err)
{
    struct mobilenet *m = mobilenet_of(model);
    if (!m->train || b->n != m->n || b->n < 1)
        return error_set(err, ERR_STATE,
                         "model: no forward pass of %d samples in training "
                         "mode to go back from",
                         b->n);
    struct pass p = {.m = m, .n = b->n, .on_ready = on_ready, .arg = arg};
    m->train = false; /* the logits are overwritten: once only */
    if (head(&p, err) < 0)
        return error_wrap(err, "backward: classifier");
    for (int32_t i = ARCH_LAYERS - 1; i >= 0; i--)
        if (row(&p, i, err) < 0)
            return error_wrap(err, "backward: %s", m->arch.layers[i].conv);
    return 0;
}
