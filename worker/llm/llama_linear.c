/* llama_linear.c - a product with its adapters, and its gradients.
 *
 *   y  = s t B^T + x W^T + b,  t = drop(x) A^T,  s = alpha / rank of the part
 *   dB = s dy^T t,  dt = s dy B,  dA = dt^T drop(x),  dx = drop(dt A) + dy W
 *
 * The adapter writes its result first, and the product of W, which computes far
 * longer than it reads and writes, adds to it: added the other way round, the
 * adapter's product would read and write all of y, and of dx, once more.
 *
 * The bias is added to what both left; its gradient is the sum of dy.
 *
 * drop() takes the same values away each time: its stream begins at a place
 * of its own for every layer and product. With 8da4w W and the x beside it are
 * rounded, in dx and dW, too; adapters read x as it is.
 *
 * src  Hu et al. 2021, arXiv:2106.09685
 */
#include "worker/llm/llama_linear.h"
#include "worker/llm/llama_internal.h"

/* Tensors of a product. */
struct place {
    const struct llama_linear *l;
    const void *w;        /* [out, in]; the output layer's is in pieces */
    int64_t weight, bias; /* offsets, with what the layer adds */
    struct llama_lora lora;
};

static struct place place_of(const struct llama *m, const struct llama_call *c)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_linear *l = &s->linear[c->product];
    const bool is_head = c->product == PRODUCT_HEAD;
    struct place p = {
        .l = l,
        .w = is_head ? NULL : llama_layer_weight(m, l->weight),
        .weight = l->weight + (is_head ? 0 : c->layer * s->layer_weights),
        .bias = l->bias > 0 ? l->bias + c->layer * s->layer_weights : 0,
    };
    llama_lora(s, c->layer, c->product, &p.lora);
    return p;
}

static int gemm(struct llama *m, bool ta, bool tb, int64_t rows, int64_t cols,
                int64_t depth, double alpha, const void *A, int64_t lda,
                const void *B, int64_t ldb, double beta, void *C, int64_t ldc,
                struct error *err)
{
    return m->d->ops->gemm(
        m->d, m->conf.dt, ta, tb, (int32_t)rows, (int32_t)cols, (int32_t)depth,
        alpha, A, (int32_t)lda, B, (int32_t)ldb, beta, C, (int32_t)ldc, err);
}

/* Takes the same values of y [rows, in] away as of x; y may be x. */
static int drop(struct llama *m, const struct llama_call *c,
                const struct place *p, void *y, const void *x,
                struct error *err)
{
    const int32_t stream = c->layer * PRODUCTS + (int32_t)c->product;
    const int64_t first = (int64_t)stream * m->most * llama_widest(&m->shape) +
                          c->first * p->l->in;
    return m->d->ops->dropout(m->d, m->conf.dt, y, x, c->rows * p->l->in,
                              m->conf.dropout, m->mem.seed, (uint64_t)first,
                              err);
}

/* The input of A: x, or with dropout a copy. */
static int input_of(struct llama *m, const struct llama_call *c,
                    const struct place *p, const void **ret, struct error *err)
{
    *ret = c->x;
    if (!c->train || !(m->conf.dropout > 0))
        return 0;
    *ret = m->mem.dropped;
    return drop(m, c, p, m->mem.dropped, c->x, err);
}

/* Whether each column of y has an adapter. */
static bool has_all_parts(const struct place *p)
{
    int32_t width = 0;
    for (int32_t i = 0; i < p->lora.parts; i++)
        width += p->lora.part[i].of.width;
    return width == p->l->out;
}

/* low = drop(x) A^T */
static int lower(struct llama *m, const struct llama_call *c,
                 const struct place *p, struct error *err)
{
    const struct llama_linear *l = p->l;
    const void *x;
    if (input_of(m, c, p, &x, err) < 0)
        return -1;
    return gemm(m, false, true, c->rows, p->lora.lows, l->in, 1, x, l->in,
                llama_at(m, m->mem.params, p->lora.a), l->in, 0, c->low,
                p->lora.lows, err);
}

int llama_linear_low(struct llama *m, const struct llama_call *c,
                     struct error *err)
{
    const struct place p = place_of(m, c);
    return p.lora.parts > 0 && !m->is_reference ? lower(m, c, &p, err) : 0;
}

/* y = s t B^T, or y += s t B^T, in the columns of each part. Fills in low. */
static int adapter(struct llama *m, const struct llama_call *c,
                   const struct place *p, bool adds, void *y, struct error *err)
{
    const struct llama_linear *l = p->l;
    if (lower(m, c, p, err) < 0)
        return -1;
    for (int32_t i = 0; i < p->lora.parts; i++) {
        const struct llama_lora_part *part = &p->lora.part[i];
        if (gemm(m, false, true, c->rows, part->of.width, part->rank,
                 part->scale, llama_at(m, c->low, part->low), p->lora.lows,
                 llama_at(m, m->mem.params, part->b), part->rank, adds ? 1 : 0,
                 llama_at(m, y, part->of.col), l->out, err) < 0)
            return -1;
    }
    return 0;
}

/* y (+)= x W^T, each piece of an output layer to columns of its own. */
static int times_weight(struct llama *m, const struct llama_call *c,
                        const struct place *p, const void *x, double beta,
                        void *y, struct error *err)
{
    const struct llama_linear *l = p->l;
    struct llama_piece w = {.step = 0};
    int rc = 0;
    if (c->product != PRODUCT_HEAD)
        return gemm(m, false, true, c->rows, l->out, l->in, 1, x, l->in, p->w,
                    l->in, beta, y, l->out, err);
    while ((rc = llama_head_piece(m, &w, err)) > 0)
        if (gemm(m, false, true, c->rows, w.rows, l->in, 1, x, l->in, w.w,
                 l->in, beta, llama_at(m, y, w.first), l->out, err) < 0)
            return -1;
    return rc;
}

/* dx (+)= dy W: the sum over the pieces of an output layer, which is rounded at
 * each. */
static int times_weight_back(struct llama *m, const struct llama_call *c,
                             const struct place *p, const void *dy, double beta,
                             void *dx, struct error *err)
{
    const struct llama_linear *l = p->l;
    const char *columns = dy;
    struct llama_piece w = {.step = 0};
    int rc = 0;
    if (c->product != PRODUCT_HEAD)
        return gemm(m, false, false, c->rows, l->in, l->out, 1, dy, l->out,
                    p->w, l->in, beta, dx, l->in, err);
    while ((rc = llama_head_piece(m, &w, err)) > 0) {
        if (gemm(m, false, false, c->rows, l->in, w.rows, 1,
                 columns + (size_t)w.first * dtype_bytes(m->conf.dt), l->out,
                 w.w, l->in, beta, dx, l->in, err) < 0)
            return -1;
        beta = 1;
    }
    return rc;
}

int llama_linear(struct llama *m, const struct llama_call *c, void *y,
                 struct error *err)
{
    const struct place p = place_of(m, c);
    const struct llama_linear *l = p.l;
    const bool adapts = p.lora.parts > 0 && !m->is_reference;
    /* Columns without an adapter have nothing that W could be added to. */
    const bool is_first = adapts && has_all_parts(&p);
    const void *x;
    if ((is_first && adapter(m, c, &p, false, y, err) < 0) ||
        llama_round_input(m, c->product, c->rows, c->x, &x, err) < 0 ||
        times_weight(m, c, &p, x, is_first ? 1 : 0, y, err) < 0)
        return -1;
    if (adapts && !is_first && adapter(m, c, &p, true, y, err) < 0)
        return -1;
    if (p.bias == 0)
        return 0;
    return m->d->ops->bias_fwd(m->d, m->conf.dt, y,
                               llama_layer_weight(m, l->bias), c->rows, l->out,
                               err);
}

/* dB of each part, and dlow [rows, lows]. */
static int back_up(struct llama *m, const struct llama_call *c,
                   const struct place *p, const void *dy, struct error *err)
{
    const struct llama_linear *l = p->l;
    for (int32_t i = 0; i < p->lora.parts; i++) {
        const struct llama_lora_part *part = &p->lora.part[i];
        const int64_t b = part->b, low = part->low;
        const int32_t r = part->rank, width = part->of.width;
        const void *own =
            (const char *)dy + (size_t)part->of.col * dtype_bytes(m->conf.dt);
        if (gemm(m, true, false, width, r, c->rows, part->scale, own, l->out,
                 llama_at(m, c->low, low), p->lora.lows, c->adds ? 1 : 0,
                 llama_at(m, m->mem.grads, b), r, err) < 0 ||
            gemm(m, false, false, c->rows, r, width, part->scale, own, l->out,
                 llama_at(m, m->mem.params, b), r, 0,
                 llama_at(m, m->mem.dlow, low), p->lora.lows, err) < 0)
            return -1;
    }
    return 0;
}

/* dA, from dlow. */
static int back_in(struct llama *m, const struct llama_call *c,
                   const struct place *p, struct error *err)
{
    const struct llama_linear *l = p->l;
    const void *x;
    if (input_of(m, c, p, &x, err) < 0)
        return -1;
    return gemm(m, true, false, p->lora.lows, l->in, c->rows, 1, m->mem.dlow,
                p->lora.lows, x, l->in, c->adds ? 1 : 0,
                llama_at(m, m->mem.grads, p->lora.a), l->in, err);
}

/* dx = drop(dlow A) */
static int back_down(struct llama *m, const struct llama_call *c,
                     const struct place *p, void *dx, struct error *err)
{
    const struct llama_linear *l = p->l;
    if (gemm(m, false, false, c->rows, l->in, p->lora.lows, 1, m->mem.dlow,
             p->lora.lows, llama_at(m, m->mem.params, p->lora.a), l->in, 0, dx,
             l->in, err) < 0)
        return -1;
    if (!c->train || !(m->conf.dropout > 0))
        return 0;
    return drop(m, c, p, dx, dx, err);
}

int llama_linear_back_input(struct llama *m, const struct llama_call *c,
                            const void *dy, void *dx, struct error *err)
{
    const struct place p = place_of(m, c);
    const bool adapts = !m->shape.is_full && p.lora.parts > 0;
    if (adapts && (back_up(m, c, &p, dy, err) < 0 ||
                   (dx != NULL && back_down(m, c, &p, dx, err) < 0)))
        return -1;
    if (dx == NULL)
        return 0;
    return times_weight_back(m, c, &p, dy, adapts ? 1 : 0, dx, err);
}

int llama_linear_back_weights(struct llama *m, const struct llama_call *c,
                              const void *dy, struct error *err)
{
    const struct place p = place_of(m, c);
    const struct llama_linear *l = p.l;
    const void *x;
    if (!m->shape.is_full)
        return p.lora.parts > 0 ? back_in(m, c, &p, err) : 0;
    if (llama_round_input(m, c->product, c->rows, c->x, &x, err) < 0)
        return -1;
    if (gemm(m, true, false, l->out, l->in, c->rows, 1, dy, l->out, x, l->in,
             c->adds ? 1 : 0, llama_grad_at(m, p.weight), l->in, err) < 0)
        return -1;
    if (p.bias == 0)
        return 0;
    return m->d->ops->bias_bwd(m->d, m->conf.dt, llama_grad_at(m, p.bias), dy,
                               c->rows, l->out, err);
}

int llama_linear_back(struct llama *m, const struct llama_call *c,
                      const void *dy, void *dx, struct error *err)
{
    if (llama_linear_back_input(m, c, dy, dx, err) < 0)
        return -1;
    return llama_linear_back_weights(m, c, dy, err);
}

int llama_linear_piece(struct llama *m, const struct llama_call *c,
                       const struct llama_piece *p, void *y, struct error *err)
{
    const int32_t in = m->shape.c.hidden;
    const void *x;
    if (llama_round_input(m, c->product, c->rows, c->x, &x, err) < 0)
        return -1;
    return gemm(m, false, true, c->rows, p->rows, in, 1, x, in, p->w, in, 0, y,
                p->rows, err);
}

int llama_linear_piece_back(struct llama *m, const struct llama_call *c,
                            const struct llama_piece *p, const void *dy,
                            bool is_first, void *dx, struct error *err)
{
    const int32_t in = m->shape.c.hidden;
    const int64_t weight =
        m->shape.linear[c->product].weight + (int64_t)p->first * in;
    const void *x;
    if (gemm(m, false, false, c->rows, in, p->rows, 1, dy, p->rows, p->w, in,
             is_first ? 0 : 1, dx, in, err) < 0 ||
        llama_round_input(m, c->product, c->rows, c->x, &x, err) < 0)
        return -1;
    return gemm(m, true, false, p->rows, in, c->rows, 1, dy, p->rows, x, in,
                c->adds ? 1 : 0, llama_grad_at(m, weight), in, err);
}
