/* llama_backward.c - the gradients, from the output layer to the embedding.
 *
 * mem.dres is the gradient of the residual stream, all the way down. That of
 * the output layer is there already, see llama_head.c. What the forward pass
 * did not keep is made again: norms and the MLP's product always, beside their
 * gradients, a whole layer with activation checkpointing.
 */
#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_linear.h"
#include "worker/llm/llama_qk_norm.h"

struct way {
    struct llama *m;
    const struct batch *b;
    int (*on_ready)(void *arg, int64_t first, int64_t count, struct error *err);
    void *arg;
};

static int ready(const struct way *w, int64_t first, int64_t count,
                 struct error *err)
{
    if (w->on_ready == NULL || count == 0 || llama_shares_grads(w->m))
        return 0;
    return w->on_ready(w->arg, first, count, err);
}

/* A share is ready as a whole. */
static int share_ready(const struct way *w, struct error *err)
{
    if (llama_grads_finish(w->m, err) < 0)
        return -1;
    if (w->on_ready == NULL || w->m->conf.in_bwd)
        return 0;
    return w->on_ready(w->arg, 0, w->m->plan.params, err);
}

/* Where an op writes the gradient of a norm's weight; NULL: none is trained.
 * in   weight  its offset among the weights */
static void *norm_grad(const struct llama *m, int64_t weight)
{
    if (!m->shape.is_full)
        return NULL;
    return llama_shares_grads(m) ? m->mem.norm_grad : llama_grad_at(m, weight);
}

/* Puts it where it belongs, behind the op: it may take the weight's place,
 * which the op still reads. */
static int keep_norm_grad(struct llama *m, int64_t weight, int32_t n,
                          struct error *err)
{
    if (!llama_shares_grads(m))
        return 0;
    return m->d->ops->copy(m->d, llama_grad_at(m, weight), m->mem.norm_grad,
                           (size_t)n * dtype_bytes(m->conf.dt), err);
}

/* dres of a norm's input h: through the norm of dnorm, beside `extra`.
 * in   w, weight  its weights, and their offset among the gradients
 * out  y          what the forward pass made of h; NULL: not wanted */
static int norm_back(struct llama *m, const void *w, int64_t weight, void *y,
                     const void *h, const void *rstd, const void *extra,
                     struct error *err)
{
    if (m->d->ops->llm.rmsnorm_bwd(m->d, m->conf.dt, m->mem.dres,
                                   norm_grad(m, weight), y, m->mem.dnorm, h,
                                   rstd, w, extra, m->tokens, m->shape.c.hidden,
                                   err) < 0)
        return -1;
    return keep_norm_grad(m, weight, m->shape.c.hidden, err);
}

/* Clears the gradient of an output layer that saw no labelled token. */
static int zero_head(struct llama *m, struct error *err)
{
    const struct llama_linear *l = &m->shape.linear[PRODUCT_HEAD];
    const int64_t adapter = llama_adapters_at(&m->shape, m->shape.c.layers);
    const int64_t first = m->shape.is_full ? l->weight : adapter;
    const int64_t n = m->shape.is_full ? (int64_t)l->out * l->in
                                       : m->shape.adapters - adapter;
    return m->d->ops->zero(m->d, llama_grad_at(m, first),
                           (size_t)n * dtype_bytes(m->conf.dt), err);
}

/* All pieces of an output layer whose gradient is sharded. The last norm is in
 * the unit of the first, or, where they are those of the embedding, in one of
 * its own. */
static int pieces_back(struct llama *m, const struct batch *b,
                       struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t norm = llama_unit_of_norm(s), head = llama_unit_of_head(s, 0);
    if (llama_head_back(m, b, err) < 0 || norm == head)
        return norm == head ? 0 : -1;
    if (llama_grads_end(m, head, err) < 0 || llama_need(m, norm, err) < 0)
        return -1;
    llama_grads_replace(m, norm);
    return llama_soon(m, llama_unit_of_layer(s, s->c.layers - 1), err);
}

/* Of pairs. With the norm before it, again; it may end with any piece. */
static int chunks_back(struct llama *m, const struct batch *b,
                       struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t norm = llama_unit_of_norm(s);
    if (llama_need(m, norm, err) < 0 ||
        m->d->ops->llm.rmsnorm_fwd(m->d, m->conf.dt, m->mem.normed, NULL, NULL,
                                   m->mem.last, NULL,
                                   llama_weight_at(m, s->norm), m->tokens,
                                   s->c.hidden, s->c.norm_eps, err) < 0 ||
        llama_need(m, llama_unit_of_head(s, 0), err) < 0 ||
        (m->n_labelled == 0 && zero_head(m, err) < 0) ||
        llama_head(m, b, true, true, err) < 0)
        return -1;
    return llama_need(m, norm, err);
}

static int head_back(const struct way *w, struct error *err)
{
    struct llama *m = w->m;
    const struct llama_shape *s = &m->shape;
    const struct llama_linear *l = &s->linear[PRODUCT_HEAD];
    const int64_t adapter = llama_adapters_at(s, s->c.layers);
    if (!llama_head_is_again(m)) {
        if (llama_need(m, llama_unit_of_norm(s), err) < 0 ||
            (llama_trains_head(m) && m->n_labelled == 0 &&
             zero_head(m, err) < 0))
            return -1;
    } else if ((llama_shares_grads(m) ? pieces_back(m, w->b, err)
                                      : chunks_back(m, w->b, err)) < 0) {
        return -1;
    }
    if (llama_trains_head(m)) {
        if (!s->is_full && ready(w, adapter, s->adapters - adapter, err) < 0)
            return -1;
        if (s->is_full && !s->c.tied &&
            ready(w, l->weight, (int64_t)l->out * l->in, err) < 0)
            return -1;
    }
    if (m->d->ops->llm.put_rows(m->d, m->conf.dt, m->mem.dnorm, m->mem.labelled,
                                w->b->arrays[TOKENS_LABELLED].data,
                                m->n_labelled, s->c.hidden, m->tokens,
                                err) < 0 ||
        norm_back(m, llama_weight_at(m, s->norm), s->norm, NULL, m->mem.last,
                  m->mem.last_rstd, NULL, err) < 0 ||
        llama_grads_end(m, llama_unit_of_norm(s), err) < 0)
        return -1;
    if (llama_shares_grads(m))
        llama_drop(m);
    return s->is_full ? ready(w, s->norm, s->c.hidden, err) : 0;
}

/* Goes back from dres, of the layer's output, to the gradient of mid. */
static int feed_back(struct llama *m, int32_t l, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_acts *a = &m->mem.acts[l];
    struct llama_call call = {.product = PRODUCT_DOWN,
                              .layer = l,
                              .rows = m->tokens,
                              .train = true,
                              .x = m->mem.wide,
                              .low = a->low[PRODUCT_DOWN]};
    if (llama_linear_back_input(m, &call, m->mem.dres, m->mem.wide_grad, err) <
            0 ||
        m->d->ops->llm.swiglu_bwd(m->d, m->conf.dt, a->gate_up, m->mem.wide,
                                  m->mem.wide_grad, a->gate_up, m->tokens,
                                  s->c.ffn, err) < 0 ||
        llama_linear_back_weights(m, &call, m->mem.dres, err) < 0)
        return -1;
    call.product = PRODUCT_GATE_UP;
    call.x = m->mem.normed;
    call.low = a->low[PRODUCT_GATE_UP];
    if (llama_linear_back_input(m, &call, a->gate_up, m->mem.dnorm, err) < 0 ||
        norm_back(m, llama_layer_weight(m, s->norm2),
                  s->norm2 + l * s->layer_weights, m->mem.normed, a->mid,
                  a->rstd2, m->mem.dres, err) < 0)
        return -1;
    return llama_linear_back_weights(m, &call, a->gate_up, err);
}

static int heads_back(struct llama *m, const struct llama_qk_part *p, int32_t l,
                      struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_acts *a = &m->mem.acts[l];
    const size_t acc = dtype_acc_bytes(m->conf.dt);
    const int64_t weight = p->weight + l * s->layer_weights;
    if (m->d->ops->llm.head.norm_bwd(
            m->d, m->conf.dt, llama_at(m, m->mem.qkv_grad, p->col),
            s->linear[PRODUCT_QKV].out, norm_grad(m, weight),
            llama_at(m, a->heads, p->ahead * s->c.head_dim),
            (const char *)a->heads_rstd + (size_t)p->ahead * acc,
            llama_layer_weight(m, p->weight), m->tokens, p->heads,
            s->c.head_dim, err) < 0)
        return -1;
    return keep_norm_grad(m, weight, s->c.head_dim, err);
}

/* The heads' norms, with the gradients of their weights. */
static int qk_norm_back(struct llama *m, int32_t l, struct error *err)
{
    for (int i = 0; i < LLAMA_QK_PARTS && m->shape.q_norm > 0; i++) {
        const struct llama_qk_part p = llama_qk_part_of(m, i);
        if (heads_back(m, &p, l, err) < 0)
            return -1;
    }
    return 0;
}

/* Goes back from the gradient of `attended`, in wide_grad, to that of q, k and
 * v. */
static int attend_back(struct llama *m, int32_t l, const int32_t *pos,
                       struct error *err)
{
    const struct llama_config *c = &m->shape.c;
    const struct llama_acts *a = &m->mem.acts[l];
    const int32_t width = m->shape.linear[PRODUCT_QKV].out;
    const int32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const struct attention s = {.rows = m->tokens,
                                .heads = c->heads,
                                .kv_heads = c->kv_heads,
                                .head_dim = c->head_dim,
                                .scale = m->attention_scale,
                                .window = llama_config_window(c, l)};
    void *d = m->mem.qkv_grad;
    if (m->d->ops->llm.attention_bwd(
            m->d, m->conf.dt, d, llama_at(m, d, q), llama_at(m, d, q + kv),
            width, m->mem.wide_grad, a->attended, q, a->lse, a->qkv,
            llama_at(m, a->qkv, q), llama_at(m, a->qkv, q + kv), width, pos, &s,
            err) < 0)
        return -1;
    if (m->d->ops->llm.rope(m->d, m->conf.dt, d, width, pos, m->mem.rotation,
                            m->conf.row_tokens, m->tokens,
                            c->heads + c->kv_heads, c->head_dim, true, err) < 0)
        return -1;
    return qk_norm_back(m, l, err);
}

/* Below the first layer lora has nothing to train. */
static int layer_back(const struct way *w, int32_t l, struct error *err)
{
    struct llama *m = w->m;
    const struct llama_shape *s = &m->shape;
    const struct llama_acts *a = &m->mem.acts[l];
    const int32_t *pos = w->b->arrays[TOKENS_POS].data;
    const bool goes_on = s->is_full || l > 0;
    const int32_t unit = llama_unit_of_layer(s, l);
    const int64_t first = llama_adapters_at(s, l); /* of lora */
    struct llama_call call = {.product = PRODUCT_O,
                              .layer = l,
                              .rows = m->tokens,
                              .train = true,
                              .x = a->attended,
                              .low = a->low[PRODUCT_O]};
    if (llama_need(m, unit, err) < 0 ||
        (l > 0 && llama_soon(m, unit - 1, err) < 0))
        return -1;
    llama_grads_replace(m, unit);
    if ((m->conf.recomputes && l < s->c.layers - 1 &&
         llama_layer(m, l, pos, true, true, err) < 0) ||
        llama_open_layer(m, l, err) < 0 || feed_back(m, l, err) < 0 ||
        (l > 0 && llama_ahead(m, unit - 1, err) < 0) ||
        llama_linear_back(m, &call, m->mem.dres, m->mem.wide_grad, err) < 0 ||
        attend_back(m, l, pos, err) < 0)
        return -1;
    call.product = PRODUCT_QKV;
    call.x = m->mem.normed;
    call.low = a->low[PRODUCT_QKV];
    if (llama_linear_back_input(m, &call, m->mem.qkv_grad,
                                goes_on ? m->mem.dnorm : NULL, err) < 0 ||
        (goes_on ? norm_back(m, llama_layer_weight(m, s->norm1),
                             s->norm1 + l * s->layer_weights, m->mem.normed,
                             a->x, a->rstd1, m->mem.dres, err)
                 : llama_norm_again(m, l, err)) < 0 ||
        llama_linear_back_weights(m, &call, m->mem.qkv_grad, err) < 0 ||
        llama_grads_end(m, unit, err) < 0)
        return -1;
    return s->is_full
               ? ready(w, s->layers + l * s->layer_weights, s->layer_weights,
                       err)
               : ready(w, first, llama_adapters_at(s, l + 1) - first, err);
}

static int embed_piece_back(const struct way *w, int32_t piece,
                            struct error *err)
{
    struct llama *m = w->m;
    const struct llama_shape *s = &m->shape;
    const int32_t unit = llama_unit_of_embed(piece);
    const struct row_part part = {.first = (int64_t)piece * s->unit_rows,
                                  .rows = llama_piece_rows(s, piece),
                                  .limit = s->c.vocab};
    const int64_t first = s->embed + part.first * s->c.hidden;
    const int64_t n = part.rows * s->c.hidden;
    /* Tied, the output layer's gradient is there already, or handed out. */
    const bool adds = s->c.tied && m->shards.n == 0;
    if (llama_grads_begin(m, unit, err) < 0)
        return -1;
    void *grad = llama_grad_at(m, first);
    if ((!adds &&
         m->d->ops->zero(m->d, grad, (size_t)n * dtype_bytes(m->conf.dt), err) <
             0) ||
        m->d->ops->llm.add_rows(m->d, m->conf.dt, grad, m->mem.dres,
                                w->b->arrays[TOKENS_ID].data,
                                w->b->arrays[TOKENS_ORDER].data, m->tokens,
                                s->c.hidden, &part, err) < 0 ||
        (s->c.tied ? llama_grads_add(m, unit, err)
                   : llama_grads_end(m, unit, err)) < 0)
        return -1;
    return ready(w, first, n, err);
}

static int embed_back(const struct way *w, struct error *err)
{
    const struct llama_shape *s = &w->m->shape;
    for (int32_t i = 0; i < llama_pieces(s) && s->is_full; i++)
        if (embed_piece_back(w, i, err) < 0)
            return -1;
    return 0;
}

int llama_backward(struct model *model, const struct batch *b,
                   int (*on_ready)(void *arg, int64_t first, int64_t count,
                                   struct error *err),
                   void *arg, struct error *err)
{
    struct llama *m = llama_of(model);
    const struct way w = {m, b, on_ready, arg};
    if (!m->train || m->n != b->n)
        return error_set(err, ERR_STATE,
                         "model: no forward pass in training over %d rows came "
                         "before",
                         b->n);
    llama_waits_begin(m, true);
    m->on_ready = on_ready;
    m->arg = arg;
    m->handed = -1;
    int rc = head_back(&w, err);
    for (int32_t l = m->shape.c.layers - 1; l >= 0 && rc == 0; l--)
        rc = layer_back(&w, l, err);
    rc = rc < 0 ? rc : embed_back(&w, err);
    if (rc == 0 && llama_shares_grads(m))
        rc = share_ready(&w, err);
    m->train = false; /* activations are used up */
    return rc;
}
