/* llama_shape.c - see llama_shape.h. */
#include "worker/llm/llama_shape.h"

#include <stdio.h>
#include <string.h>

static int64_t place(int64_t *at, int64_t n)
{
    int64_t here = *at;
    *at += n;
    return here;
}

static int64_t place_inner(struct llama_shape *s, int64_t *at,
                           enum llama_inner which, int32_t rows, int32_t cols)
{
    s->inner[s->inners++] =
        (struct llama_layer_tensor){which, *at - s->layers, rows, cols};
    return place(at, (int64_t)rows * (cols > 0 ? cols : 1));
}

/* A product of n linears of `outs` columns; `weight` and `bias` are the first
 * of their tensors. */
static void place_linears(struct llama_shape *s, enum llama_product p,
                          int64_t *at, enum llama_inner weight,
                          enum llama_inner bias, int32_t in,
                          const int32_t *outs, int n)
{
    struct llama_linear *l = &s->linear[p];
    l->in = in;
    l->weight = *at;
    for (int i = 0; i < n; i++) {
        (void)place_inner(s, at, (enum llama_inner)((int)weight + i), outs[i],
                          in);
        l->out += outs[i];
    }
    if (!(s->c.biases & 1u << p))
        return;
    l->bias = *at;
    for (int i = 0; i < n; i++)
        (void)place_inner(s, at, (enum llama_inner)((int)bias + i), outs[i], 0);
}

static void place_weights(struct llama_shape *s)
{
    const struct llama_config *c = &s->c;
    const int32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const int32_t qkv[] = {q, kv, kv}, gate_up[] = {c->ffn, c->ffn};
    int64_t at = 0;
    s->embed = place(&at, (int64_t)c->vocab * c->hidden);
    s->layers = at;
    s->norm1 = place_inner(s, &at, INNER_NORM1, c->hidden, 0);
    place_linears(s, PRODUCT_QKV, &at, INNER_Q, INNER_Q_BIAS, c->hidden, qkv,
                  3);
    place_linears(s, PRODUCT_O, &at, INNER_O, INNER_O_BIAS, q, &c->hidden, 1);
    s->norm2 = place_inner(s, &at, INNER_NORM2, c->hidden, 0);
    place_linears(s, PRODUCT_GATE_UP, &at, INNER_GATE, INNER_GATE_BIAS,
                  c->hidden, gate_up, 2);
    place_linears(s, PRODUCT_DOWN, &at, INNER_DOWN, INNER_DOWN_BIAS, c->ffn,
                  &c->hidden, 1);
    s->layer_weights = at - s->layers;
    at = s->layers + s->layer_weights * c->layers;
    s->norm = place(&at, c->hidden);
    s->linear[PRODUCT_HEAD] = (struct llama_linear){
        .in = c->hidden, .out = c->vocab, .weight = s->embed};
    if (!c->tied)
        s->linear[PRODUCT_HEAD].weight =
            place(&at, (int64_t)c->vocab * c->hidden);
    s->weights = at;
}

static void add_part(struct llama_shape *s, enum llama_product p,
                     uint32_t target, int32_t col, int32_t width)
{
    struct llama_linear *l = &s->linear[p];
    if (s->targets & target)
        l->part[l->parts++] = (struct llama_part){target, col, width, 0};
}

static void place_product(struct llama_shape *s, enum llama_product p,
                          int64_t *at)
{
    struct llama_linear *l = &s->linear[p];
    l->a = place(at, (int64_t)l->parts * s->rank * l->in);
    for (int32_t i = 0; i < l->parts; i++)
        l->part[i].b = place(at, (int64_t)l->part[i].width * s->rank);
}

static void place_adapters(struct llama_shape *s)
{
    const struct llama_config *c = &s->c;
    const int32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    int64_t at = 0;
    add_part(s, PRODUCT_QKV, LORA_Q, 0, q);
    add_part(s, PRODUCT_QKV, LORA_K, q, kv);
    add_part(s, PRODUCT_QKV, LORA_V, q + kv, kv);
    add_part(s, PRODUCT_O, LORA_O, 0, c->hidden);
    add_part(s, PRODUCT_GATE_UP, LORA_GATE, 0, c->ffn);
    add_part(s, PRODUCT_GATE_UP, LORA_UP, c->ffn, c->ffn);
    add_part(s, PRODUCT_DOWN, LORA_DOWN, 0, c->hidden);
    add_part(s, PRODUCT_HEAD, LORA_OUTPUT, 0, c->vocab);
    for (int p = 0; p < PRODUCT_HEAD; p++)
        place_product(s, (enum llama_product)p, &at);
    s->layer_adapters = at;
    at *= c->layers;
    place_product(s, PRODUCT_HEAD, &at);
    s->adapters = at;
}

int llama_shape_init(struct llama_shape *ret, const struct llama_config *c,
                     bool is_full, int32_t rank, double alpha, uint32_t targets,
                     struct error *err)
{
    struct llama_shape s = {.c = *c,
                            .is_full = is_full,
                            .rank = is_full ? 0 : rank,
                            .alpha = alpha,
                            .targets = is_full ? 0 : targets};
    if (!is_full && (rank < 1 || targets == 0))
        return error_set(err, ERR_INVAL, "lora: rank %d, %s", rank,
                         targets == 0 ? "no linear has an adapter"
                                      : "expected 1 or more");
    place_weights(&s);
    place_adapters(&s);
    s.params = is_full ? s.weights : s.adapters;
    s.unit_rows = c->vocab;
    *ret = s;
    return 0;
}

/* ---- units ---------------------------------------------------------------
 */

int32_t llama_pieces(const struct llama_shape *s)
{
    return (s->c.vocab + s->unit_rows - 1) / s->unit_rows;
}

int32_t llama_units(const struct llama_shape *s)
{
    return llama_unit_of_norm(s) + (s->c.tied ? 1 : llama_pieces(s));
}

int32_t llama_unit_of_embed(int32_t piece)
{
    return piece;
}

int32_t llama_unit_of_layer(const struct llama_shape *s, int32_t l)
{
    return llama_pieces(s) + l;
}

int32_t llama_unit_of_norm(const struct llama_shape *s)
{
    return llama_pieces(s) + s->c.layers;
}

int32_t llama_unit_of_head(const struct llama_shape *s, int32_t piece)
{
    return s->c.tied ? llama_unit_of_embed(piece)
                     : llama_unit_of_norm(s) + piece;
}

int32_t llama_unit_at(const struct llama_shape *s, int64_t offset)
{
    const int64_t piece = (int64_t)s->unit_rows * s->c.hidden;
    if (offset < s->layers)
        return llama_unit_of_embed((int32_t)((offset - s->embed) / piece));
    if (offset < s->norm)
        return llama_unit_of_layer(
            s, (int32_t)((offset - s->layers) / s->layer_weights));
    const int64_t into = offset - s->norm - s->c.hidden;
    return llama_unit_of_norm(s) + (into < 0 ? 0 : (int32_t)(into / piece));
}

int64_t llama_unit_first(const struct llama_shape *s, int32_t unit)
{
    const int64_t piece = (int64_t)s->unit_rows * s->c.hidden;
    const int32_t pieces = llama_pieces(s), norm = llama_unit_of_norm(s);
    if (unit >= llama_units(s))
        return s->weights;
    if (unit < pieces)
        return s->embed + unit * piece;
    if (unit < norm)
        return s->layers + (unit - pieces) * s->layer_weights;
    return unit == norm ? s->norm
                        : s->norm + s->c.hidden + (unit - norm) * piece;
}

int32_t llama_piece_rows(const struct llama_shape *s, int32_t piece)
{
    const int32_t left = s->c.vocab - piece * s->unit_rows;
    return left < s->unit_rows ? left : s->unit_rows;
}

/* ---- names ---------------------------------------------------------------
 */

static void set(struct llama_tensor *t, int64_t at, int32_t rows, int32_t cols)
{
    t->at = at;
    t->dims = cols > 0 ? 2 : 1;
    t->shape[0] = rows;
    t->shape[1] = cols;
    t->n = (int64_t)rows * (cols > 0 ? cols : 1);
    t->is_norm = cols == 0;
}

int32_t llama_weight_count(const struct llama_shape *s)
{
    return s->inners * s->c.layers + (s->c.tied ? 2 : 3);
}

void llama_weight(const struct llama_shape *s, int32_t i,
                  struct llama_tensor *ret)
{
    const struct llama_config *c = &s->c;
    const int32_t inner = s->inners * c->layers;
    struct llama_tensor t = {.name = "model.embed_tokens.weight"};
    if (i == 0) {
        set(&t, s->embed, c->vocab, c->hidden);
    } else if (i <= inner) {
        const int32_t layer = (i - 1) / s->inners;
        const struct llama_layer_tensor *in = &s->inner[(i - 1) % s->inners];
        set(&t, s->layers + layer * s->layer_weights + in->at, in->rows,
            in->cols);
        (void)snprintf(t.name, sizeof(t.name), "model.layers.%d.%s", layer,
                       llama_arch(c->arch)->inner[in->which]);
    } else if (i == inner + 1) {
        memcpy(t.name, "model.norm.weight", sizeof("model.norm.weight"));
        set(&t, s->norm, c->hidden, 0);
    } else {
        memcpy(t.name, "lm_head.weight", sizeof("lm_head.weight"));
        set(&t, s->linear[PRODUCT_HEAD].weight, c->vocab, c->hidden);
    }
    *ret = t;
}

/* Tensors of an adapter's layer. */
static int32_t adapters_per_layer(const struct llama_shape *s)
{
    int32_t n = 0;
    for (int p = 0; p < PRODUCT_HEAD; p++)
        n += 2 * s->linear[p].parts;
    return n;
}

int32_t llama_adapter_count(const struct llama_shape *s)
{
    return adapters_per_layer(s) * s->c.layers +
           2 * s->linear[PRODUCT_HEAD].parts;
}

/* The A's of a product come first, then its B's. */
static void adapter_of(const struct llama_shape *s,
                       const struct llama_linear *l, int32_t k,
                       struct llama_tensor *t)
{
    const bool is_a = k < l->parts;
    const struct llama_part *p = &l->part[k % l->parts];
    if (is_a)
        set(t, l->a + (int64_t)k * s->rank * l->in, s->rank, l->in);
    else
        set(t, p->b, p->width, s->rank);
    t->fan_in = is_a ? l->in : 0;
}

static void name_adapter(struct llama_tensor *t, int32_t layer, uint32_t target)
{
    const char *word = adapter_target_word((enum lora_target)target);
    const char *part = t->fan_in > 0 ? "lora_A" : "lora_B";
    if (target == LORA_OUTPUT)
        (void)snprintf(t->name, sizeof(t->name),
                       "base_model.model.%s.%s.weight", word, part);
    else
        (void)snprintf(t->name, sizeof(t->name),
                       "base_model.model.model.layers.%d.%s.%s.%s.weight",
                       layer, target < LORA_GATE ? "self_attn" : "mlp", word,
                       part);
}

void llama_adapter(const struct llama_shape *s, int32_t i,
                   struct llama_tensor *ret)
{
    const int32_t each = adapters_per_layer(s), inner = each * s->c.layers;
    const int32_t layer = i < inner ? i / each : 0;
    int32_t k = i < inner ? i % each : i - inner;
    int p = i < inner ? 0 : PRODUCT_HEAD;
    while (k >= 2 * s->linear[p].parts)
        k -= 2 * s->linear[p++].parts;
    const struct llama_linear *l = &s->linear[p];
    struct llama_tensor t = {.name = ""};
    adapter_of(s, l, k, &t);
    t.at += p < PRODUCT_HEAD ? layer * s->layer_adapters : 0;
    name_adapter(&t, layer, l->part[k % l->parts].target);
    *ret = t;
}

int32_t llama_trained_count(const struct llama_shape *s)
{
    return s->is_full ? llama_weight_count(s) : llama_adapter_count(s);
}

void llama_trained(const struct llama_shape *s, int32_t i,
                   struct llama_tensor *ret)
{
    if (s->is_full)
        llama_weight(s, i, ret);
    else
        llama_adapter(s, i, ret);
}

int64_t llama_largest(const struct llama_shape *s)
{
    int64_t most = 1;
    for (int32_t i = 0; i < llama_trained_count(s); i++) {
        struct llama_tensor t;
        llama_trained(s, i, &t);
        most = t.n > most ? t.n : most;
    }
    return most;
}

/* ---- work ------------------------------------------------------------------
 */

/* A product of a pass. */
struct product {
    const struct llama_linear *l;
    double rows, bytes; /* bytes: of a weight */
    double lows, width; /* of its adapters: columns of A, and of all B */
    double out;         /* values of a row that are written; of logits none */
    bool is_last;       /* nothing below it is trained */
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
    x.lows = adapts ? (double)l->parts * s->rank : 0;
    for (int32_t i = 0; i < l->parts && adapts; i++)
        x.width += l->part[i].width;
    return x;
}

static double adapter_values(const struct llama_shape *s,
                             const struct product *x)
{
    return x->lows * x->l->in + x->width * s->rank;
}

static void floor_forward(const struct llama_shape *s, const struct product *x,
                          const struct llama_work *w, struct card_floor *io)
{
    const double weights = (double)x->l->in * x->l->out;
    const double adapter = adapter_values(s, x);
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
    const double adapter = adapter_values(s, x);
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

static void floor_attention(const struct llama_shape *s,
                            const struct llama_work *w, bool trains,
                            struct card_floor *io)
{
    const double q = (double)s->c.heads * s->c.head_dim;
    const double kv = (double)s->c.kv_heads * s->c.head_dim;
    /* q, k, v and what is attended; and their gradients. */
    const double bytes = w->value_bytes * w->tokens * (2 * q + 2 * kv);
    card_floor_add(io, 4 * w->attends * q, bytes);
    if (trains)
        card_floor_add(io, 10 * w->attends * q, 2 * bytes);
}

static void floor_passes(const struct llama_shape *s,
                         const struct llama_work *w, bool trains,
                         struct card_floor *io)
{
    for (int32_t l = 0; l < s->c.layers; l++) {
        for (int p = 0; p < PRODUCT_HEAD; p++) {
            const struct product x =
                product_of(s, l, (enum llama_product)p, w, trains);
            floor_forward(s, &x, w, io);
            if (trains)
                floor_backward(s, &x, w, io);
        }
        floor_attention(s, w, trains, io);
    }
    const struct product head = product_of(s, 0, PRODUCT_HEAD, w, trains);
    floor_forward(s, &head, w, io);
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
