/* llama_forward.c - embedding and layers.
 *
 *   x = embed(ids)
 *   each layer:  mid = x + o(attention(rope(heads(qkv(norm(x))))))
 *                x   = mid + down(swiglu(gate_up(norm(mid))))
 *   norm, output layer
 *
 * heads: the norms of queries and keys, where the model has them.
 * The sums of the residual stream belong to the norm that reads them: a layer
 * leaves mid and, in mem.delta, what is to be added.
 */
#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_linear.h"
#include "worker/llm/llama_pairs.h"
#include "worker/llm/llama_qk_norm.h"

int llama_put(struct model *model, uint64_t seed, double scale,
              struct error *err)
{
    struct llama *m = llama_of(model);
    const double scales[2] = {scale, 1};
    if (m->d->ops->put(m->d, m->mem.seed, &seed, sizeof(seed), err) < 0)
        return -1;
    return m->d->ops->put(m->d, m->mem.scale, scales, sizeof(scales), err);
}

static int norm(struct llama *m, const void *w, void *rstd, void *h,
                const void *x, const void *delta, struct error *err)
{
    return m->d->ops->llm.rmsnorm_fwd(m->d, m->conf.dt, m->mem.normed, rstd, h,
                                      x, delta, w, m->tokens, m->shape.c.hidden,
                                      m->shape.c.norm_eps, err);
}

int llama_norm_again(struct llama *m, int32_t l, struct error *err)
{
    return norm(m, llama_layer_weight(m, m->shape.norm1), NULL, NULL,
                m->mem.acts[l].x, NULL, err);
}

/* Attention of the tokens in qkv, which have others before them. */
static int attend_on(struct llama *m, const struct llama_acts *a,
                     const void *qkv, const void *k, const void *v,
                     int32_t width, struct attention *s, struct error *err)
{
    for (int64_t i = 0; i < m->tokens; i++) {
        s->rows = m->first + i + 1;
        if (m->d->ops->llm.attention_step(
                m->d, m->conf.dt,
                llama_at(m, a->attended, i * s->heads * s->head_dim),
                (const char *)qkv +
                    (size_t)(i * width) * dtype_bytes(m->conf.dt),
                k, v, width, s, err) < 0)
            return -1;
    }
    return 0;
}

/* Attention of the tokens in qkv, to each other and to those before them. */
static int attend_to(struct llama *m, int32_t l, const void *qkv,
                     const int32_t *pos, struct error *err)
{
    const struct llama_config *c = &m->shape.c;
    const struct llama_acts *a = &m->mem.acts[l];
    const int32_t width = m->shape.linear[PRODUCT_QKV].out;
    const int32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    struct attention s = {.rows = m->tokens,
                          .heads = c->heads,
                          .kv_heads = c->kv_heads,
                          .head_dim = c->head_dim,
                          .scale = m->attention_scale,
                          .window = llama_config_window(c, l)};
    const void *k = llama_at(m, a->qkv, q), *v = llama_at(m, a->qkv, q + kv);
    if (m->first > 0)
        return attend_on(m, a, qkv, k, v, width, &s, err);
    return m->d->ops->llm.attention_fwd(m->d, m->conf.dt, a->attended, q,
                                        a->lse, qkv, k, v, width, pos, &s, err);
}

/* in   a  the copy is wanted where it has room */
static int norm_heads(struct llama *m, const struct llama_qk_part *p,
                      const struct llama_acts *a, void *qkv, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const size_t acc = dtype_acc_bytes(m->conf.dt);
    void *h = NULL, *rstd = NULL;
    if (!m->conf.generates) {
        h = llama_at(m, a->heads, p->ahead * s->c.head_dim);
        rstd = (char *)a->heads_rstd + (size_t)p->ahead * acc;
    }
    return m->d->ops->llm.head.norm_fwd(
        m->d, m->conf.dt, llama_at(m, qkv, p->col), s->linear[PRODUCT_QKV].out,
        h, rstd, llama_layer_weight(m, p->weight), m->tokens, p->heads,
        s->c.head_dim, s->c.norm_eps, err);
}

/* The heads of q and k in qkv, before they are rotated. */
static int qk_norm(struct llama *m, int32_t l, void *qkv, struct error *err)
{
    for (int i = 0; i < LLAMA_QK_PARTS && m->shape.q_norm > 0; i++) {
        const struct llama_qk_part p = llama_qk_part_of(m, i);
        if (norm_heads(m, &p, &m->mem.acts[l], qkv, err) < 0)
            return -1;
    }
    return 0;
}

/* attended = attention of normed, which is the norm of a->x. */
static int attend(struct llama *m, int32_t l, const int32_t *pos, bool train,
                  struct error *err)
{
    const struct llama_config *c = &m->shape.c;
    const struct llama_acts *a = &m->mem.acts[l];
    const int32_t width = m->shape.linear[PRODUCT_QKV].out;
    void *qkv = llama_at(m, a->qkv, m->first * width);
    const struct llama_call call = {.product = PRODUCT_QKV,
                                    .layer = l,
                                    .rows = m->tokens,
                                    .train = train,
                                    .x = m->mem.normed,
                                    .low = a->low[PRODUCT_QKV]};
    if (llama_linear(m, &call, qkv, err) < 0 || qk_norm(m, l, qkv, err) < 0 ||
        m->d->ops->llm.rope(m->d, m->conf.dt, qkv, width, pos, m->mem.rotation,
                            m->conf.row_tokens, m->tokens,
                            c->heads + c->kv_heads, c->head_dim, false,
                            err) < 0)
        return -1;
    return attend_to(m, l, qkv, pos, err);
}

/* delta = the MLP of normed, which is the norm of a->mid. `again`: only what
 * the backward pass reads, not delta. */
static int feed(struct llama *m, int32_t l, bool train, bool again,
                struct error *err)
{
    const struct llama_acts *a = &m->mem.acts[l];
    struct llama_lora down;
    llama_lora(&m->shape, l, PRODUCT_DOWN, &down);
    const bool is_wanted = !again || down.parts > 0;
    struct llama_call call = {.product = PRODUCT_GATE_UP,
                              .layer = l,
                              .rows = m->tokens,
                              .train = train,
                              .x = m->mem.normed,
                              .low = a->low[PRODUCT_GATE_UP]};
    if (llama_linear(m, &call, a->gate_up, err) < 0 ||
        (is_wanted &&
         m->d->ops->llm.swiglu_fwd(m->d, m->conf.dt, m->mem.wide, a->gate_up,
                                   m->tokens, m->shape.c.ffn, err) < 0))
        return -1;
    call.product = PRODUCT_DOWN;
    call.x = m->mem.wide;
    call.low = a->low[PRODUCT_DOWN];
    return again ? llama_linear_low(m, &call, err)
                 : llama_linear(m, &call, m->mem.delta, err);
}

/* normed = the norm of a->x. */
static int enter(struct llama *m, int32_t l, bool again, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_acts *a = &m->mem.acts[l];
    const void *w = llama_layer_weight(m, s->norm1);
    if (again || l == 0)
        return norm(m, w, a->rstd1, NULL, a->x, NULL, err);
    return norm(m, w, a->rstd1, a->x, m->mem.acts[l - 1].mid, m->mem.delta,
                err);
}

int llama_layer(struct llama *m, int32_t l, const int32_t *pos, bool train,
                bool again, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const struct llama_acts *a = &m->mem.acts[l];
    const struct llama_call call = {.product = PRODUCT_O,
                                    .layer = l,
                                    .rows = m->tokens,
                                    .train = train,
                                    .x = a->attended,
                                    .low = a->low[PRODUCT_O]};
    if (llama_open_layer(m, l, err) < 0 || enter(m, l, again, err) < 0 ||
        attend(m, l, pos, train, err) < 0 ||
        llama_linear(m, &call, m->mem.delta, err) < 0 ||
        norm(m, llama_layer_weight(m, s->norm2), a->rstd2, a->mid, a->x,
             m->mem.delta, err) < 0)
        return -1;
    return feed(m, l, train, again, err);
}

/* The rows of x whose tokens are in a piece of the embedding. The unit behind
 * the last piece is the first layer. */
static int embed(struct llama *m, int32_t piece, const int32_t *ids,
                 struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t unit = llama_unit_of_embed(piece);
    const struct row_part part = {.first = (int64_t)piece * s->unit_rows,
                                  .rows = llama_piece_rows(s, piece),
                                  .limit = s->c.vocab};
    if (llama_need(m, unit, err) < 0 || llama_ahead(m, unit + 1, err) < 0)
        return -1;
    return m->d->ops->llm.take_rows(
        m->d, m->conf.dt, m->mem.acts[0].x,
        llama_weight_at(m, s->embed + part.first * s->c.hidden), ids, m->tokens,
        s->c.hidden, &part, err);
}

int llama_layers(struct llama *m, const int32_t *ids, const int32_t *pos,
                 bool train, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int32_t last = s->c.layers - 1;
    llama_close_layers(m);
    llama_forget(m);
    for (int32_t i = 0; i < llama_pieces(s); i++)
        if (embed(m, i, ids, err) < 0)
            return -1;
    for (int32_t l = 0; l <= last; l++) {
        const int32_t unit = llama_unit_of_layer(s, l);
        if (llama_need(m, unit, err) < 0 || llama_ahead(m, unit + 1, err) < 0 ||
            llama_layer(m, l, pos, train, false, err) < 0)
            return -1;
    }
    if (llama_need(m, llama_unit_of_norm(s), err) < 0 ||
        llama_ahead(m, llama_unit_of_head(s, 0), err) < 0 ||
        norm(m, llama_weight_at(m, s->norm), m->mem.last_rstd, m->mem.last,
             m->mem.acts[last].mid, m->mem.delta, err) < 0)
        return -1;
    return llama_need(m, llama_unit_of_head(s, 0), err);
}

int llama_check_batch(const struct llama *m, const struct batch *b, bool train,
                      struct error *err)
{
    const int32_t most = train ? m->conf.batch : m->conf.batch_eval;
    const int64_t row = (int64_t)(b->arrays[TOKENS_ID].bytes / sizeof(int32_t));
    if (b->n < 1 || b->n > most || row < 1 || row > m->conf.row_tokens)
        return error_set(err, ERR_INVAL,
                         "model: %d rows of %lld tokens, expected 1..%d of "
                         "1..%d",
                         b->n, (long long)row, most, m->conf.row_tokens);
    const double labelled = m->conf.pairs ? b->labelled : b->weight;
    if (!(labelled >= 0) || labelled > (double)(b->n * row))
        return error_set(err, ERR_INVAL, "model: %.0f labelled tokens of %lld",
                         labelled, (long long)(b->n * row));
    if (m->conf.pairs && b->arrays[TOKENS_PAIR].data == NULL)
        return error_set(err, ERR_INVAL, "model: a batch without pairs");
    return 0;
}

void llama_repeat(struct model *model, const struct batch *b, bool train)
{
    struct llama *m = llama_of(model);
    m->n = b->n;
    m->tokens = b->n * (int64_t)(b->arrays[TOKENS_ID].bytes / sizeof(int32_t));
    m->n_labelled = m->conf.pairs ? b->labelled : (int32_t)b->weight;
    m->train = false; /* the backward pass was in it */
    m->trained = train;
}

/* Counts tokens without padding, and the codes of a base of four bits. */
void llama_floor(const struct model *model, const struct batch *b,
                 struct card_floor *io)
{
    const struct llama *m = (const struct llama *)model;
    const double bytes = (double)dtype_bytes(m->conf.dt);
    const struct llama_work w = {
        .tokens = (double)b->tokens,
        .labelled = m->conf.pairs ? b->labelled : b->weight,
        .attends = (double)b->attends,
        .windowed = (double)b->windowed,
        .value_bytes = bytes,
        .weight_bytes = m->base.quantised > 0 ? 0.5 : bytes,
        .has_reference = m->conf.pairs && !m->conf.is_precomputed};
    if (b->tokens > 0)
        llama_shape_floor(&m->shape, &w, io);
}

int llama_forward(struct model *model, const struct batch *b, bool train,
                  struct error *err)
{
    struct llama *m = llama_of(model);
    m->n = 0;
    if (llama_check_batch(m, b, train, err) < 0)
        return -1;
    llama_waits_begin(m, false);
    llama_repeat(model, b, train);
    if (llama_head_begin(m, err) < 0 ||
        (m->conf.pairs && !m->conf.is_precomputed &&
         llama_pairs_reference(m, b, err) < 0) ||
        llama_layers(m, b->arrays[TOKENS_ID].data, b->arrays[TOKENS_POS].data,
                     train, err) < 0 ||
        llama_head(m, b, train, train && !llama_head_is_again(m), err) < 0 ||
        (m->conf.pairs && llama_pairs_forward(m, b, train, err) < 0)) {
        m->n = 0;
        return -1;
    }
    m->train = train;
    return 0;
}

/* ---- what waiting costs ---------------------------------------------------
 */

enum { FORWARD, BACKWARD };

void llama_waits_begin(struct llama *m, bool is_backward)
{
    if (!is_backward)
        wait_times_init(&m->waits, m->d, MODEL_MARK);
    m->waits.kind = is_backward ? BACKWARD : FORWARD;
}

void llama_waited(struct model *model, double *ret_forward_s,
                  double *ret_backward_s)
{
    struct llama *m = llama_of(model);
    wait_times_read(&m->waits);
    *ret_forward_s = m->waits.s[FORWARD];
    *ret_backward_s = m->waits.s[BACKWARD];
}
