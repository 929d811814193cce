/* backward.c - the backward pass, from the loss to the stem's weights.
 *
 * Three buffers hold gradients of activations, and rotate: the one that came
 * in, the one going out, and, inside a block with a skip, the one that the
 * skip carries past the block. Batch norm works in place except at a skip,
 * where what came in is still needed. The rows' own values (z, y, patches)
 * are those that forward() left.
 */
#include <assert.h>

#include "worker/cv/model_impl.h"

struct pass {
    struct model *m;
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
    assert(!"three buffers are enough");
    return NULL;
}

/* Loss, classifier, dropout and pooling; leaves p->dy. */
static int head(struct pass *p, double scale, struct error *err)
{
    struct model *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const enum dtype dt = m->conf.dt;
    const struct arch *a = &m->arch;
    const int32_t n = p->n, f = a->features, classes = m->conf.num_classes;
    const int32_t side = a->layers[ARCH_LAYERS - 1].out_side;
    void *dz = m->mem.logits, *dx = m->mem.dpooled;
    const void *x = m->mem.dropped ? m->mem.dropped : m->mem.pooled;

    if (ops->xent(m->d, dt, m->mem.loss, m->mem.hit, dz, m->label, n, classes,
                  scale, true, err) < 0 ||
        ops->gemm(m->d, dt, true, false, classes, f, n, 1, dz, classes, x, f, 0,
                  at_t(m, m->mem.grads, a->fc_weight), f, err) < 0 ||
        ops->bias_bwd(m->d, dt, at_t(m, m->mem.grads, a->fc_bias), dz, n,
                      classes, err) < 0 ||
        ready(p, a->fc_weight, a->params, err) < 0 ||
        ops->gemm(m->d, dt, false, false, n, f, classes, 1, dz, classes,
                  at_t(m, m->mem.params, a->fc_weight), f, 0, dx, f, err) < 0)
        return -1;
    if (m->mem.dropped && ops->dropout(m->d, dt, dx, dx, (int64_t)n * f,
                                       m->conf.dropout, m->seed, 0, err) < 0)
        return -1;
    p->dy = m->mem.dy[0];
    return ops->avgpool_bwd(m->d, dt, p->dy, dx, n, side * side, f, err);
}

/* dz := gradient of the convolution's output, in p->dy afterwards. */
static int norm(struct pass *p, const struct layer *l, const struct acts *a,
                struct error *err)
{
    struct model *m = p->m;
    void *dz = p->dy;
    if (l->skip >= 0) {
        assert(!p->carry);
        p->carry = p->dy;
        p->carry_to = l->skip;
        dz = unused_dy(p);
    }
    const void *dy = p->dy;
    p->dy = dz;
    return m->d->ops->bn_bwd(
        m->d, m->conf.dt, dz, at_t(m, m->mem.grads, l->gamma),
        at_t(m, m->mem.grads, l->beta), dy, a->z, a->mean, a->rstd,
        at_t(m, m->mem.params, l->gamma), at_t(m, m->mem.params, l->beta),
        layer_rows(l, p->n), l->cout, l->cap, err);
}

static int weights(const struct pass *p, const struct layer *l, const void *x,
                   struct error *err)
{
    struct model *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const struct conv3 shape = layer_conv3(l, p->n);
    void *dw = at_t(m, m->mem.grads, l->weight);
    int32_t k = l->cin;
    if (l->kind == LAYER_DEPTHWISE)
        return ops->dw3_bwd_filter(m->d, m->conf.dt, dw, p->dy, x, &shape, err);
    if (l->kind == LAYER_STEM) {
        x = m->mem.col;
        k = 9 * l->cin;
    }
    return ops->gemm(m->d, m->conf.dt, true, false, l->cout, k,
                     (int32_t)layer_rows(l, p->n), 1, p->dy, l->cout, x, k, 0,
                     dw, k, err);
}

/* p->dy := gradient of the row's input. */
static int data(struct pass *p, const struct layer *l, struct error *err)
{
    struct model *m = p->m;
    const struct device_ops *ops = m->d->ops;
    const struct conv3 shape = layer_conv3(l, p->n);
    const void *w = at_t(m, m->mem.params, l->weight);
    void *dx = unused_dy(p);
    const void *dz = p->dy;
    p->dy = dx;
    if (l->kind == LAYER_DEPTHWISE)
        return ops->dw3_bwd_data(m->d, m->conf.dt, dx, dz, w, &shape, err);
    return ops->gemm(m->d, m->conf.dt, false, false,
                     (int32_t)layer_rows(l, p->n), l->cin, l->cout, 1, dz,
                     l->cout, w, l->cin, 0, dx, l->cin, err);
}

static int row(struct pass *p, int32_t i, struct error *err)
{
    struct model *m = p->m;
    const struct layer *l = &m->arch.layers[i];
    const void *x = i > 0 ? m->mem.acts[i - 1].y : NULL;
    if (norm(p, l, &m->mem.acts[i], err) < 0 || weights(p, l, x, err) < 0 ||
        ready(p, l->weight, l->beta + l->cout, err) < 0)
        return -1;
    if (i == 0)
        return 0; /* nobody asks for the gradient of the image */
    if (data(p, l, err) < 0)
        return -1;
    if (p->carry && p->carry_to == i - 1) {
        const void *carry = p->carry;
        p->carry = NULL;
        return m->d->ops->add(m->d, m->conf.dt, p->dy, carry,
                              layer_rows(&m->arch.layers[i - 1], p->n) * l->cin,
                              err);
    }
    return 0;
}

int model_backward(struct model *m, int32_t n, double scale,
                   int (*on_ready)(void *arg, int64_t first, int64_t count,
                                   struct error *err),
                   void *arg, struct error *err)
{
    if (!m->train || n != m->n || n < 1)
        return error_set(err, ERR_STATE,
                         "model: no forward pass of %d samples in training "
                         "mode to go back from",
                         n);
    struct pass p = {.m = m, .n = n, .on_ready = on_ready, .arg = arg};
    m->train = false; /* the logits are overwritten: once only */
    if (head(&p, scale, err) < 0)
        return error_wrap(err, "backward: classifier");
    for (int32_t i = ARCH_LAYERS - 1; i >= 0; i--)
        if (row(&p, i, err) < 0)
            return error_wrap(err, "backward: %s", m->arch.layers[i].conv);
    return 0;
}
