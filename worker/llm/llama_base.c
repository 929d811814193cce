/* llama_base.c - give the weights of one layer at a time; see llama_base.h.
 *
 * A pass opens a layer before it reads the layer's weights. Where all layers
 * lie in the type of the run, that is a pointer. With a base in four bits the
 * layer is written out into one buffer, in both passes; the buffer also takes
 * each tensor while the model is loaded. With 8da4w the layer is rounded into
 * that buffer.
 *
 * src  torchao 0.9.0, Int8DynActInt4WeightQATQuantizer (8da4w)
 */
#include "worker/llm/llama_base.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/llm/llama_internal.h"

/* ---- where it lies ------------------------------------------------------- */

static int64_t scalers_of(int64_t values)
{
    return values / NF4_BLOCK;
}

static void place(struct llama_base *b, struct llama_base_tensor *t,
                  bool is_norm)
{
    t->is_packed = !is_norm && t->n % NF4_BLOCK == 0;
    t->values = b->quantised;
    t->groups = b->groups;
    t->means = b->means;
    t->stays = b->stays;
    if (!t->is_packed) {
        b->stays += t->n;
        return;
    }
    b->quantised += t->n;
    b->groups += (scalers_of(t->n) + NF4_GROUP - 1) / NF4_GROUP;
    b->means++;
}

static int64_t put_behind(int64_t *at, int64_t bytes)
{
    enum { ALIGN = 256 };
    const int64_t was = *at;
    *at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return was;
}

struct llama_base_piece llama_base_piece(const struct llama_base *b,
                                         enum dtype dt)
{
    const int64_t q = (int64_t)dtype_bytes(nf4_dtype(dt));
    const int64_t scalers = scalers_of(b->quantised);
    struct llama_base_piece p = {.bytes = 0};
    p.codes = put_behind(&p.bytes, b->quantised / 2);
    if (b->quantizer == QUANTIZER_NF4) {
        p.scalers = put_behind(&p.bytes, scalers);
        p.factors = put_behind(&p.bytes, b->groups * q);
        p.mean = put_behind(&p.bytes, b->means * q);
        p.packed = b->quantised / 2 + scalers + (b->groups + b->means) * q;
    } else {
        p.absmax = put_behind(&p.bytes, scalers * q);
        p.packed = b->quantised / 2 + scalers * q;
    }
    p.stays = put_behind(&p.bytes, b->stays * (int64_t)dtype_bytes(dt));
    return p;
}

int llama_base_init(struct llama_base *ret, const struct llama_shape *s,
                    enum spec_quantizer quantizer, struct error *err)
{
    struct llama_base b = {.quantizer = quantizer};
    *ret = (struct llama_base){.quantizer = QUANTIZER_NONE};
    if (quantizer != QUANTIZER_NF4 && quantizer != QUANTIZER_NF4_SINGLE)
        return 0;
    for (int32_t k = 0; k < s->inners; k++) {
        struct llama_tensor t;
        llama_weight(s, 1 + k, &t);
        b.tensor[k].at = t.at - s->layers;
        b.tensor[k].n = t.n;
        place(&b, &b.tensor[k], t.is_norm);
    }
    b.outside = s->weights - s->c.layers * s->layer_weights;
    if (b.quantised == 0)
        return error_set(err, ERR_INVAL,
                         "method: qlora: no linear has a multiple of %d "
                         "values: set method: lora",
                         NF4_BLOCK);
    *ret = b;
    return 0;
}

const char *llama_base_word(enum spec_quantizer quantizer)
{
    switch (quantizer) {
    case QUANTIZER_NF4:
        return "nf4";
    case QUANTIZER_NF4_SINGLE:
        return "nf4_single";
    case QUANTIZER_8DA4W:
        return "8da4w";
    default:
        return "";
    }
}

void llama_base_stays(const struct llama_shape *s, const struct llama_base *b,
                      char *ret, size_t cap)
{
    size_t len = 0;
    ret[0] = '\0';
    for (int32_t k = 0; b->quantised > 0 && k < s->inners; k++) {
        struct llama_tensor t;
        llama_weight(s, 1 + k, &t);
        if (b->tensor[k].is_packed || t.is_norm || len >= cap)
            continue;
        char *end = strrchr(t.name, '.'); /* "....q_proj.weight" */
        *end = '\0';
        len += (size_t)snprintf(ret + len, cap - len, "%s%s",
                                len > 0 ? ", " : "", strrchr(t.name, '.') + 1);
    }
}

/* ---- what is rounded ----------------------------------------------------- */

static const struct {
    const char *names;
    int32_t linears;
} products[PRODUCTS] = {[PRODUCT_QKV] = {"q_proj, k_proj, v_proj", 3},
                        [PRODUCT_O] = {"o_proj", 1},
                        [PRODUCT_GATE_UP] = {"gate_proj, up_proj", 2},
                        [PRODUCT_DOWN] = {"down_proj", 1},
                        [PRODUCT_HEAD] = {"lm_head", 1}};

/* The products that are not rounded, each with its reason, behind `before`. */
static void add_kept(const struct llama_shape *s, const struct llama_base *b,
                     const char *before, char *ret, size_t cap)
{
    size_t len = strlen(ret);
    for (int p = 0; p < PRODUCTS; p++) {
        char why[32] = "the embedding";
        if (p != PRODUCT_HEAD || !s->c.tied)
            (void)snprintf(why, sizeof(why), "%d inputs", s->linear[p].in);
        if (b->rounds[p] || len >= cap)
            continue;
        len += (size_t)snprintf(ret + len, cap - len, "%s%s (%s)", before,
                                products[p].names, why);
        before = ", ";
    }
}

int llama_base_round(struct llama_base *b, const struct llama_shape *s,
                     int32_t groupsize, struct error *err)
{
    char sizes[200] = "";
    b->quantizer = QUANTIZER_8DA4W;
    b->groupsize = groupsize;
    for (int p = 0; p < PRODUCTS; p++)
        b->rounds[p] = s->linear[p].in % groupsize == 0 &&
                       (p != PRODUCT_HEAD || !s->c.tied);
    if (llama_base_widest(b, s) > 0)
        return 0;
    add_kept(s, b, "", sizes, sizeof(sizes));
    return error_set(err, ERR_INVAL,
                     "train.quantizer.groupsize: %d divides the inputs of no "
                     "linear, so none would be fake-quantised: %s",
                     groupsize, sizes);
}

int32_t llama_base_widest(const struct llama_base *b,
                          const struct llama_shape *s)
{
    int32_t most = 0;
    for (int p = 0; p < PRODUCTS; p++)
        if (b->rounds[p] && s->linear[p].in > most)
            most = s->linear[p].in;
    return most;
}

static void rounded(const struct llama_shape *s, const struct llama_base *b,
                    char *ret, size_t cap)
{
    int32_t n = 0;
    ret[0] = '\0';
    if (b->groupsize == 0)
        return;
    for (int p = 0; p < PRODUCTS; p++)
        if (b->rounds[p])
            n += products[p].linears * (p == PRODUCT_HEAD ? 1 : s->c.layers);
    (void)snprintf(ret, cap, "%d linears to 8da4w in groups of %d", n,
                   b->groupsize);
    add_kept(s, b, ", but not ", ret, cap);
}

void llama_rounded_words(const struct llama_conf *conf, char *ret, size_t cap)
{
    const struct llama_conf *c = conf;
    struct llama_shape s;
    struct llama_base b = {.groupsize = 0};
    ret[0] = '\0';
    if (c->quantizer == QUANTIZER_8DA4W &&
        llama_shape_init(&s, &c->shape, c->is_full, c->rank, c->alpha,
                         c->targets, NULL) == 0 &&
        llama_base_round(&b, &s, c->groupsize, NULL) == 0)
        rounded(&s, &b, ret, cap);
}

void llama_reached(struct model *model, int64_t iterations)
{
    struct llama *m = llama_of(model);
    m->rounds = m->base.groupsize > 0 && iterations >= m->conf.fake_quant_after;
    llama_close_layers(m);
}

void llama_say_rounded(const struct llama *m, char *ret, size_t cap)
{
    char words[200], from[48] = "";
    if (m->conf.fake_quant_after > 0)
        (void)snprintf(from, sizeof(from), " from iteration %" PRId64 " on",
                       1 + (int64_t)m->conf.fake_quant_after);
    rounded(&m->shape, &m->base, words, sizeof(words));
    (void)snprintf(ret, cap, "; fake-quantised%s: %s", from, words);
}

/* ---- tensors --------------------------------------------------------------
 */

/* The arrays that layer l lies in. */
struct layer {
    struct nf4 packed;
    void *stays;
    int64_t l; /* layers before it in these arrays */
};

static struct layer layer_at(const struct llama *m, int32_t l)
{
    const struct llama_base *b = &m->base;
    if (m->shards.n == 0)
        return (struct layer){m->mem.packed,
                              llama_at(m, m->mem.base, b->outside), l};
    const struct llama_base_piece p = llama_base_piece(b, m->conf.dt);
    char *at = llama_unit_whole(m, llama_unit_of_layer(&m->shape, l));
    return (struct layer){.packed = {.codes = (uint8_t *)at + p.codes,
                                     .scalers = (int8_t *)at + p.scalers,
                                     .factors = at + p.factors,
                                     .mean = at + p.mean,
                                     .absmax = at + p.absmax},
                          .stays = at + p.stays};
}

/* The packed tensor k of layer l. */
static struct nf4 packed_at(const struct llama *m, int32_t l, int32_t k)
{
    const struct llama_base *b = &m->base;
    const struct llama_base_tensor *t = &b->tensor[k];
    const struct layer in = layer_at(m, l);
    const struct nf4 *all = &in.packed;
    const size_t size = dtype_bytes(nf4_dtype(m->conf.dt));
    const int64_t values = in.l * b->quantised + t->values;
    struct nf4 q = {.n = t->n, .codes = all->codes + values / 2};
    if (b->quantizer == QUANTIZER_NF4_SINGLE) {
        q.absmax = (char *)all->absmax + (size_t)scalers_of(values) * size;
        return q;
    }
    q.scalers = all->scalers + scalers_of(values);
    q.factors =
        (char *)all->factors + (size_t)(in.l * b->groups + t->groups) * size;
    q.mean = (char *)all->mean + (size_t)(in.l * b->means + t->means) * size;
    return q;
}

/* Tensor k of layer l, which stays as it is. */
static void *kept_at(const struct llama *m, int32_t l, int32_t k)
{
    const struct llama_base *b = &m->base;
    const struct layer in = layer_at(m, l);
    return llama_at(m, in.stays, in.l * b->stays + b->tensor[k].stays);
}

/* ---- loading ------------------------------------------------------------- */

/* Whether tensor i of the weights is in a layer; if so, which and where. */
static bool is_inner(const struct llama *m, int32_t i, int32_t *ret_layer,
                     int32_t *ret_k)
{
    const int32_t each = m->shape.inners;
    if (i < 1 || i > m->shape.c.layers * each)
        return false;
    *ret_layer = (i - 1) / each;
    *ret_k = (i - 1) % each;
    return true;
}

static void *room_of_inner(const struct llama *m, int32_t l, int32_t k)
{
    return m->base.tensor[k].is_packed
               ? llama_at(m, m->mem.opened, m->base.tensor[k].at)
               : kept_at(m, l, k);
}

int llama_base_room(struct llama *m, int32_t i, void **ret, struct error *err)
{
    struct llama_tensor t;
    int32_t l, k;
    llama_weight(&m->shape, i, &t);
    const bool is_packed = m->base.quantised > 0 && is_inner(m, i, &l, &k);
    if (is_packed && k == 0 &&
        llama_unit_begin(m, llama_unit_of_layer(&m->shape, l), err) < 0)
        return -1;
    *ret = is_packed          ? room_of_inner(m, l, k)
           : m->shards.n > 0  ? NULL
           : m->shape.is_full ? llama_at(m, m->mem.params, t.at)
                              : llama_weight_at(m, t.at);
    return 0;
}

int llama_base_keep(struct llama *m, int32_t i, struct error *err)
{
    int32_t l, k;
    m->layer = NULL;
    if (m->base.quantised == 0 || !is_inner(m, i, &l, &k))
        return 0;
    if (m->base.tensor[k].is_packed) {
        const struct nf4 q = packed_at(m, l, k);
        if (m->d->ops->llm.nf4_quantise(m->d, m->conf.dt, &q,
                                        room_of_inner(m, l, k), err) < 0)
            return -1;
    }
    return k == m->shape.inners - 1
               ? llama_unit_keep(m, llama_unit_of_layer(&m->shape, l), err)
               : 0;
}

/* ---- one layer ----------------------------------------------------------- */

static int write_out(struct llama *m, int32_t l, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    for (int32_t k = 0; k < m->shape.inners; k++) {
        const struct llama_base_tensor *t = &m->base.tensor[k];
        void *to = llama_at(m, m->mem.opened, t->at);
        const size_t bytes = (size_t)t->n * dtype_bytes(m->conf.dt);
        const struct nf4 q =
            t->is_packed ? packed_at(m, l, k) : (struct nf4){.n = 0};
        if (t->is_packed &&
            ops->llm.nf4_expand(m->d, m->conf.dt, to, &q, err) < 0)
            return -1;
        if (!t->is_packed &&
            ops->copy(m->d, to, kept_at(m, l, k), bytes, err) < 0)
            return -1;
    }
    return 0;
}

/* Elements of the weights, as they are or rounded. */
static int put_weights(struct llama *m, bool rounds, int64_t first, int64_t n,
                       void *to, struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const void *from = llama_weight_at(m, first);
    return rounds ? ops->llm.round_int4(m->d, m->conf.dt, to, from, n,
                                        m->base.groupsize, err)
                  : ops->copy(m->d, to, from,
                              (size_t)n * dtype_bytes(m->conf.dt), err);
}

/* No op reads the layer's unrounded weights after it: in the backward pass
 * their gradient may replace them. */
static int round_layer(struct llama *m, int32_t l, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    const int64_t ahead = l * s->layer_weights;
    for (int32_t k = 0; k < s->inners; k++) {
        const struct llama_layer_tensor *t = &s->inner[k];
        if (t->cols == 0 &&
            put_weights(m, false, s->layers + ahead + t->at, t->rows,
                        llama_at(m, m->mem.opened, t->at), err) < 0)
            return -1;
    }
    for (int p = 0; p < PRODUCT_HEAD; p++) {
        const struct llama_linear *w = &s->linear[p];
        if (put_weights(m, m->base.rounds[p], w->weight + ahead,
                        (int64_t)w->out * w->in,
                        llama_at(m, m->mem.opened, w->weight - s->layers),
                        err) < 0)
            return -1;
    }
    return 0;
}

static int64_t head_offset(const struct llama_shape *s, int32_t piece)
{
    const struct llama_linear *w = &s->linear[PRODUCT_HEAD];
    return w->weight + (int64_t)piece * s->unit_rows * w->in;
}

int llama_open_head(struct llama *m, int32_t piece, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    if (!m->rounds || !m->base.rounds[PRODUCT_HEAD] || m->open_piece == piece)
        return 0;
    if (put_weights(m, true, head_offset(s, piece),
                    (int64_t)llama_piece_rows(s, piece) * s->c.hidden,
                    m->mem.opened_head, err) < 0)
        return -1;
    m->open_piece = piece;
    return 0;
}

const void *llama_head_weight(const struct llama *m, int32_t piece)
{
    return m->open_piece == piece
               ? m->mem.opened_head
               : llama_weight_at(m, head_offset(&m->shape, piece));
}

int llama_round_input(struct llama *m, enum llama_product p, int64_t rows,
                      const void *x, const void **ret, struct error *err)
{
    *ret = x;
    if (!m->rounds || !m->base.rounds[p])
        return 0;
    *ret = m->mem.rounded;
    return m->d->ops->llm.round_int8(m->d, m->conf.dt, m->mem.rounded, x, rows,
                                     m->shape.linear[p].in, err);
}

const void *llama_layer_weight(const struct llama *m, int64_t offset)
{
    return (const char *)m->layer +
           (size_t)(offset - m->shape.layers) * dtype_bytes(m->conf.dt);
}

void llama_close_layers(struct llama *m)
{
    m->layer = NULL;
    m->open_piece = -1;
}

int llama_open_layer(struct llama *m, int32_t l, struct error *err)
{
    const struct llama_shape *s = &m->shape;
    if (m->layer != NULL && m->open == l)
        return 0;
    m->layer = NULL;
    if ((m->base.quantised > 0 && write_out(m, l, err) < 0) ||
        (m->rounds && round_layer(m, l, err) < 0))
        return -1;
    m->layer = m->base.quantised > 0 || m->rounds
                   ? m->mem.opened
                   : llama_weight_at(m, s->layers + l * s->layer_weights);
    m->open = l;
    return 0;
}
