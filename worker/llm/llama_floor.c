/* llama_floor.c - the work of both passes over a batch: llama_shape_floor(). */
#include "worker/llm/llama_shape.h"

/* A product of a pass. */
struct product {
    const struct llama_linear *l;
    double rows, bytes;  /* bytes: of a weight */
    double lows, values; /* of its adapters: columns of x A^T; of all A, B */
    double out;          /* values of a row that are written; of logits none */
    bool is_last;        /* nothing below it is trained */
};

static struct product product_of(const struct llama_shape *s, int32_t layer,
                                 enum llama_product p,
                                 const struct llama_work *w, bool adapts)
{
    const struct llama_linear *l = &s->linear[p];
    const bool is_head = p == PRODUCT_HEAD;
    struct product x = {.l = l,
                        .rows = is_head ? w->labelled : w->tokens,
                        .bytes = is_head ? w->value_bytes : w->weight_bytes,
                        .out = is_head ? 0 : l->out,
                        .is_last =
                            !s->is_full && p == PRODUCT_QKV && layer == 0};
    struct llama_lora r;
    llama_lora(s, layer, p, &r);
    x.lows = adapts ? r.lows : 0;
    x.values = adapts ? (double)r.values : 0;
    return x;
}

static void floor_forward(const struct product *x, const struct llama_work *w,
                          struct card_floor *io)
{
    const double weights = (double)x->l->in * x->l->out;
    const double adapter = x->values;
    card_floor_add(io, 2 * x->rows * (weights + adapter),
                   x->bytes * weights +
                       w->value_bytes *
                           (x->rows * (x->l->in + x->out) + adapter));
}

/* The gradients of its weights, or of A and B, and of its input. */
static void floor_backward(const struct llama_shape *s, const struct product *x,
                           const struct llama_work *w, struct card_floor *io)
{
    const double weights = (double)x->l->in * x->l->out;
    const double adapter = x->values;
    const double trains = s->is_full, goes_on = !x->is_last;
    const double reads = s->is_full || x->lows > 0; /* the input */
    if (reads == 0 && goes_on == 0)
        return;
    card_floor_add(io,
                   2 * x->rows *
                       ((goes_on + trains) * weights + 2 * adapter -
                        (1 - goes_on) * x->lows * x->l->in),
                   goes_on * x->bytes * weights +
                       w->value_bytes *
                           (x->rows * (x->out + (goes_on + reads) * x->l->in) +
                            trains * weights + 2 * adapter));
}

static void floor_attention(const struct llama_shape *s, int32_t layer,
                            const struct llama_work *w, bool trains,
                            struct card_floor *io)
{
    const bool has_window = llama_config_window(&s->c, layer) > 0;
    const double pairs = has_window ? w->windowed : w->attends;
    const double q = (double)s->c.heads * s->c.head_dim;
    const double kv = (double)s->c.kv_heads * s->c.head_dim;
    /* q, k, v and what is attended; and their gradients. */
    const double bytes = w->value_bytes * w->tokens * (2 * q + 2 * kv);
    card_floor_add(io, 4 * pairs * q, bytes);
    if (trains)
        card_floor_add(io, 10 * pairs * q, 2 * bytes);
}

static void floor_passes(const struct llama_shape *s,
                         const struct llama_work *w, bool trains,
                         struct card_floor *io)
{
    for (int32_t l = 0; l < s->c.layers; l++) {
        for (int p = 0; p < PRODUCT_HEAD; p++) {
            const struct product x =
                product_of(s, l, (enum llama_product)p, w, trains);
            floor_forward(&x, w, io);
            if (trains)
                floor_backward(s, &x, w, io);
        }
        floor_attention(s, l, w, trains, io);
    }
    const struct product head = product_of(s, 0, PRODUCT_HEAD, w, trains);
    floor_forward(&head, w, io);
    if (trains)
        floor_backward(s, &head, w, io);
}

void llama_shape_floor(const struct llama_shape *s, const struct llama_work *w,
                       struct card_floor *io)
{
    if (w->has_reference) /* without the adapters */
        floor_passes(s, w, false, io);
    floor_passes(s, w, true, io);
    /* The embedding's gradient has a row for each token that there is. */
    if (s->is_full && !s->c.tied)
        card_floor_add(io, 0,
                       w->value_bytes * (double)s->c.vocab * s->c.hidden);
}
