/* llama_shape.c - see llama_shape.h. */
#include "worker/llm/llama_shape.h"

#include <assert.h>
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
    if (c->head_norms) {
        s->q_norm = place_inner(s, &at, INNER_Q_NORM, c->head_dim, 0);
        s->k_norm = place_inner(s, &at, INNER_K_NORM, c->head_dim, 0);
    }
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
        l->part[l->parts++] = (struct llama_part){target, col, width};
}

/* The index of a part's target, among the ranks of its layer. */
static int index_of(const struct llama_part *p)
{
    return adapter_target_index((enum lora_target)p->target);
}

/* A product's adapters, from `at` on. */
static void lay_lora(const struct llama_shape *s, int32_t layer,
                     enum llama_product p, int64_t at, struct llama_lora *ret)
{
    const struct llama_linear *l = &s->linear[p];
    const struct adapter_layer *ranks =
        s->ranks == NULL
            ? NULL
            : &s->ranks->layer[p == PRODUCT_HEAD ? s->c.layers : layer];
    struct llama_lora r = {.a = at};
    for (int32_t i = 0; i < l->parts; i++) {
        const int t = index_of(&l->part[i]);
        const int32_t rank = ranks != NULL ? ranks->rank[t] : s->rank;
        const double alpha = ranks != NULL ? ranks->alpha[t] : s->alpha;
        if (rank == 0)
            continue;
        r.part[r.parts++] = (struct llama_lora_part){.of = l->part[i],
                                                     .rank = rank,
                                                     .low = r.lows,
                                                     .scale = alpha / rank};
        r.lows += rank;
    }
    at += (int64_t)r.lows * l->in;
    for (int32_t i = 0; i < r.parts; i++)
        r.part[i].b = place(&at, (int64_t)r.part[i].of.width * r.part[i].rank);
    r.values = at - r.a;
    *ret = r;
}

int64_t llama_adapters_at(const struct llama_shape *s, int32_t layer)
{
    int64_t at = 0;
    for (int p = 0; p < PRODUCT_HEAD; p++)
        for (int32_t i = 0; i < s->linear[p].parts; i++) {
            const struct llama_part *part = &s->linear[p].part[i];
            const int64_t ranks =
                s->ranks != NULL ? s->ranks->layer[layer].before[index_of(part)]
                                 : (int64_t)layer * s->rank;
            at += ranks * ((int64_t)s->linear[p].in + part->width);
        }
    return at;
}

void llama_lora(const struct llama_shape *s, int32_t layer,
                enum llama_product p, struct llama_lora *ret)
{
    const bool is_head = p == PRODUCT_HEAD;
    int64_t at = llama_adapters_at(s, is_head ? s->c.layers : layer);
    for (int i = 0; i < PRODUCT_HEAD && i < (int)p && !is_head; i++) {
        lay_lora(s, layer, (enum llama_product)i, at, ret);
        at += ret->values;
    }
    lay_lora(s, layer, p, at, ret);
}

int64_t llama_lows(const struct llama_shape *s, enum llama_product p)
{
    int32_t most = 0;
    struct llama_lora r;
    for (int32_t l = 0; l < (s->ranks != NULL ? s->c.layers : 1); l++) {
        lay_lora(s, l, p, 0, &r);
        most = r.lows > most ? r.lows : most;
    }
    return most;
}

/* How many there are, for the ranks as they are. */
static void count_adapters(struct llama_shape *s)
{
    struct llama_lora head;
    llama_lora(s, 0, PRODUCT_HEAD, &head);
    s->adapters = head.a + head.values;
    s->params = s->is_full ? s->weights : s->adapters;
}

static void place_adapters(struct llama_shape *s)
{
    const struct llama_config *c = &s->c;
    const int32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    add_part(s, PRODUCT_QKV, LORA_Q, 0, q);
    add_part(s, PRODUCT_QKV, LORA_K, q, kv);
    add_part(s, PRODUCT_QKV, LORA_V, q + kv, kv);
    add_part(s, PRODUCT_O, LORA_O, 0, c->hidden);
    add_part(s, PRODUCT_GATE_UP, LORA_GATE, 0, c->ffn);
    add_part(s, PRODUCT_GATE_UP, LORA_UP, c->ffn, c->ffn);
    add_part(s, PRODUCT_DOWN, LORA_DOWN, 0, c->hidden);
    add_part(s, PRODUCT_HEAD, LORA_OUTPUT, 0, c->vocab);
    count_adapters(s);
}

void llama_shape_set_ranks(struct llama_shape *s, const struct adapter_ranks *r)
{
    if (s->is_full || r->layer == NULL)
        return;
    s->ranks = r;
    s->rank = r->most;
    count_adapters(s);
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

/* Linears of the layers before one that have an adapter. */
static int32_t linears_before(const struct llama_shape *s, int32_t layer)
{
    int32_t n = 0;
    if (s->ranks != NULL)
        return s->ranks->layer[layer].linears;
    for (int p = 0; p < PRODUCT_HEAD; p++)
        n += s->linear[p].parts;
    return n * layer;
}

int32_t llama_adapter_count(const struct llama_shape *s)
{
    return 2 * (linears_before(s, s->c.layers) + s->linear[PRODUCT_HEAD].parts);
}

/* The layer of an adapter's tensor: the last with no more before it; the number
 * of layers: it is the output layer's. */
static int32_t layer_of(const struct llama_shape *s, int32_t tensor)
{
    int32_t low = 0, high = s->c.layers;
    while (low < high) {
        const int32_t at = high - (high - low) / 2;
        if (2 * linears_before(s, at) <= tensor)
            low = at;
        else
            high = at - 1;
    }
    return low;
}

/* The A's of a product come first, then its B's. */
static void adapter_of(const struct llama_linear *l, const struct llama_lora *r,
                       int32_t k, struct llama_tensor *t)
{
    const bool is_a = k < r->parts;
    const struct llama_lora_part *p = &r->part[k % r->parts];
    if (is_a)
        set(t, r->a + (int64_t)p->low * l->in, p->rank, l->in);
    else
        set(t, p->b, p->of.width, p->rank);
    t->fan_in = is_a ? l->in : 0;
    t->scale = p->scale;
}

static void name_adapter(struct llama_tensor *t, int32_t layer, uint32_t target)
{
    char module[ADAPTER_MODULE_CAP];
    adapter_module((enum lora_target)target, layer, module);
    (void)snprintf(t->name, sizeof(t->name), "base_model.model.%s.%s.weight",
                   module, t->fan_in > 0 ? "lora_A" : "lora_B");
}

void llama_adapter(const struct llama_shape *s, int32_t i,
                   struct llama_tensor *ret)
{
    const int32_t layer = layer_of(s, i);
    int32_t k = i - 2 * linears_before(s, layer);
    int p = layer < s->c.layers ? 0 : PRODUCT_HEAD;
    struct llama_lora r;
    llama_lora(s, layer, (enum llama_product)p, &r);
    while (k >= 2 * r.parts) {
        k -= 2 * r.parts;
        llama_lora(s, layer, (enum llama_product)++ p, &r);
    }
    assert(r.parts > 0); /* i is below their count */
    struct llama_tensor t = {.name = ""};
    adapter_of(&s->linear[p], &r, k, &t);
    name_adapter(&t, layer, r.part[k % r.parts].of.target);
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
