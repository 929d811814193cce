/* llama.c - memory of the model: the plan, the arena, and the state that
 * outlives a step.
 *
 * lay_out() gives every array its place. It runs with base 0 for the plan
 * and with the real base afterwards, so the plan cannot differ from what is
 * used. The arena is one allocation: either a job fits or it is refused
 * before its first step.
 */
#include "worker/llm/llama.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/data/tokenizer/tokenizer.h"
#include "worker/llm/config/llama_rope.h"
#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_pairs.h"
#include "worker/llm/llama_qk_norm.h"

enum { ALIGN = 256 };

struct cursor {
    char *base; /* NULL: only count */
    size_t at;
};

static void *take(struct cursor *c, int64_t n, size_t size)
{
    void *p = c->base ? c->base + c->at : NULL;
    c->at += ((size_t)n * size + ALIGN - 1) / ALIGN * ALIGN;
    return p;
}

static int32_t most_rows(const struct llama_conf *c)
{
    return c->batch > c->batch_eval ? c->batch : c->batch_eval;
}

static int64_t most_tokens(const struct llama_conf *c)
{
    return (int64_t)most_rows(c) * c->row_tokens;
}

/* ---- the arena ------------------------------------------------------------
 */

static void lay_acts(struct cursor *c, const struct llama_conf *conf,
                     const struct llama_shape *s, int64_t m,
                     struct llama_acts *ret)
{
    const size_t t = dtype_bytes(conf->dt), acc = dtype_acc_bytes(conf->dt);
    ret->rstd1 = take(c, m, acc);
    ret->rstd2 = take(c, m, acc);
    ret->qkv = take(c, m * s->linear[PRODUCT_QKV].out, t);
    if (s->q_norm > 0) {
        const int64_t back = conf->generates ? 0 : m;
        const int64_t heads = s->c.heads + s->c.kv_heads;
        ret->heads = take(c, back * heads * s->c.head_dim, t);
        ret->heads_rstd = take(c, back * heads, acc);
    }
    ret->attended = take(c, m * s->linear[PRODUCT_O].in, t);
    ret->lse = take(c, m * s->c.heads, acc);
    ret->mid = take(c, m * s->c.hidden, t);
    ret->gate_up = take(c, m * s->linear[PRODUCT_GATE_UP].out, t);
    for (int p = 0; p < PRODUCT_HEAD; p++)
        ret->low[p] = take(c, m * llama_lows(s, (enum llama_product)p), t);
}

/* Lays out the activations of all layers: with activation checkpointing they
 * share all but x, to generate all but qkv.
 * in   acts  [layers], or NULL: only count */
static void lay_layers(struct cursor *c, const struct llama_conf *conf,
                       const struct llama_shape *s, int64_t m,
                       struct llama_acts *acts)
{
    struct llama_acts one = {.x = NULL};
    for (int32_t l = 0; l < s->c.layers; l++) {
        if (l == 0 || !(conf->recomputes || conf->generates))
            lay_acts(c, conf, s, m, &one);
        else if (conf->generates)
            one.qkv =
                take(c, m * s->linear[PRODUCT_QKV].out, dtype_bytes(conf->dt));
        if (l == 0 || !conf->generates)
            one.x = take(c, m * s->c.hidden, dtype_bytes(conf->dt));
        if (acts != NULL)
            acts[l] = one;
    }
}

/* Lays out the base: all weights, or four-bit values and the weights that stay.
 * in   weights  elements that this rank keeps */
static void lay_base(struct cursor *c, const struct llama_conf *conf,
                     const struct llama_shape *s, const struct llama_base *b,
                     int64_t weights, struct llama_arena *ret,
                     struct model_plan *plan)
{
    const size_t t = dtype_bytes(conf->dt),
                 q = dtype_bytes(nf4_dtype(conf->dt));
    const int64_t layers = s->c.layers, n = layers * b->quantised;
    const bool twice = b->quantizer == QUANTIZER_NF4;
    plan->quantised = n;
    if (n == 0 || conf->shared_by > 1) {
        ret->base = take(c, llama_has_base(conf) ? weights : 0,
                         llama_share_size(b, conf->dt));
        plan->bytes_quantised = layers * llama_base_piece(b, conf->dt).packed;
        return;
    }
    ret->base = take(c, b->outside + layers * b->stays, t);
    const size_t mark = c->at;
    ret->packed.codes = take(c, n / 2, 1);
    ret->packed.scalers = twice ? take(c, n / NF4_BLOCK, 1) : NULL;
    ret->packed.factors = take(c, twice ? layers * b->groups : 0, q);
    ret->packed.mean = take(c, twice ? layers * b->means : 0, q);
    ret->packed.absmax = take(c, twice ? 0 : n / NF4_BLOCK, q);
    plan->bytes_quantised = (int64_t)(c->at - mark);
}

static void lay_work(struct cursor *c, const struct llama_conf *conf,
                     const struct llama_shape *s, const struct llama_base *b,
                     int64_t m, struct llama_arena *ret,
                     struct model_plan *plan)
{
    const size_t t = dtype_bytes(conf->dt);
    const int32_t d = s->c.hidden, widest = llama_widest(s);
    const int32_t chunk = conf->generates ? 1 : conf->head_rows;
    const int64_t back = conf->generates ? 0 : m; /* rows with gradients */
    ret->normed = take(c, m * d, t);
    ret->delta = take(c, m * d, t);
    ret->wide = take(c, m * widest, t);
    ret->wide_grad = take(c, back * widest, t);
    ret->qkv_grad = take(c, back * s->linear[PRODUCT_QKV].out, t);
    ret->dres = take(c, back * d, t);
    ret->dnorm = take(c, back * d, t);
    ret->dlow = take(c, s->is_full ? 0 : back * 3 * s->rank, t);
    ret->dropped = take(c, conf->dropout > 0 ? m * widest : 0, t);
    const size_t mark = c->at;
    ret->opened =
        take(c, b->quantised > 0 || b->groupsize > 0 ? s->layer_weights : 0, t);
    ret->opened_head =
        take(c, b->rounds[PRODUCT_HEAD] ? (int64_t)s->unit_rows * d : 0, t);
    ret->rounded = take(c, m * llama_base_widest(b, s), t);
    plan->bytes_rounded = b->groupsize > 0 ? (int64_t)(c->at - mark) : 0;
    ret->norm_grad = take(
        c, s->is_full && conf->shared_by > 1 ? llama_norm_widest(s) : 0, t);
    ret->chunk = take(c, (int64_t)chunk * d, t);
    ret->logits = take(c, (int64_t)chunk * s->c.vocab, t);
}

static void lay_pairs(struct cursor *c, const struct llama_conf *conf,
                      int64_t m, struct llama_arena *ret)
{
    const size_t acc = dtype_acc_bytes(conf->dt);
    const int64_t answers = conf->pairs ? 2 * (int64_t)most_rows(conf) : 0;
    const int64_t tokens = conf->pairs && !conf->generates ? m : 0;
    ret->log_p = take(c, answers, acc);
    ret->logit = take(c, answers, acc);
    ret->reference = take(c, answers, acc);
    ret->logits_mean = take(c, tokens, acc);
    ret->factor = take(c, tokens, acc);
}

/* in   shards  of the weights */
static void lay_out(const struct llama_conf *conf, const struct llama_shape *s,
                    const struct llama_base *b, const struct shards *shards,
                    void *base, struct llama_arena *ret,
                    struct model_plan *plan)
{
    const size_t t = dtype_bytes(conf->dt), acc = dtype_acc_bytes(conf->dt);
    const int64_t m = most_tokens(conf);
    const int64_t weights = shards->n > 0 ? shards->elements : s->weights;
    struct cursor c = {.base = base};
    size_t mark;

    plan->params = s->is_full ? weights : s->params;
    plan->ranges = llama_range_count(s);
    plan->parts = llama_parts_of(conf, s, shards);
    lay_base(&c, conf, s, b, weights, ret, plan);
    plan->bytes_base = (int64_t)(mark = c.at);
    ret->params = take(&c, plan->params, t);
    plan->bytes_params = (int64_t)(c.at - mark);
    mark = c.at;
    const int64_t grads = conf->in_bwd ? plan->parts : plan->params;
    ret->grads = take(&c, conf->generates ? 0 : grads, t);
    plan->bytes_grads = (int64_t)(c.at - mark);
    mark = c.at;
    ret->gathered = take(&c, 2 * llama_slot_elements(s, shards),
                         llama_share_size(b, conf->dt));
    plan->bytes_gathered = (int64_t)(c.at - mark);
    mark = c.at;

    lay_layers(&c, conf, s, m, ret->acts);
    ret->last = take(&c, m * s->c.hidden, t);
    ret->last_rstd = take(&c, m, acc);
    ret->labelled = take(&c, conf->generates ? 0 : m * s->c.hidden, t);
    ret->loss = take(&c, m, acc);
    ret->hit = take(&c, m, sizeof(*ret->hit));
    ret->sums = take(&c, s->is_full && conf->shared_by > 1 ? 2 * m : 0, acc);
    ret->head_low = take(&c, conf->head_rows * llama_lows(s, PRODUCT_HEAD), t);
    ret->seed = take(&c, 1, sizeof(*ret->seed));
    ret->scale = take(&c, 2, sizeof(*ret->scale));
    ret->rotation = take(&c, (int64_t)conf->row_tokens * s->c.head_dim, acc);
    ret->ids = take(&c, conf->row_tokens, sizeof(*ret->ids));
    ret->pos = take(&c, conf->row_tokens, sizeof(*ret->pos));
    lay_pairs(&c, conf, m, ret);
    plan->bytes_activations = (int64_t)(c.at - mark);
    mark = c.at;

    lay_work(&c, conf, s, b, m, ret, plan);
    plan->bytes_work = (int64_t)(c.at - mark);
    plan->bytes_total = (int64_t)c.at;
}

static int shape_of(const struct llama_conf *conf, struct llama_shape *ret,
                    struct llama_base *ret_base, struct error *err)
{
    if (conf->batch < 1 || conf->batch_eval < 1 || conf->row_tokens < 1)
        return error_set(err, ERR_INVAL,
                         "model: batches of %d and %d rows of %d tokens",
                         conf->batch, conf->batch_eval, conf->row_tokens);
    if (most_tokens(conf) > INT32_MAX)
        return error_set(err, ERR_INVAL,
                         "train.batch_size: %" PRId64
                         " tokens in a pass, 2147483647 are possible",
                         most_tokens(conf));
    if (llama_shape_init(ret, &conf->shape, conf->is_full, conf->rank,
                         conf->alpha, conf->targets, err) < 0)
        return -1;
    llama_shape_set_ranks(ret, &conf->ranks);
    if (llama_base_init(ret_base, ret, conf->quantizer, err) < 0)
        return -1;
    ret->unit_rows = llama_unit_rows(conf, ret, ret_base);
    if (conf->quantizer != QUANTIZER_8DA4W)
        return 0;
    return llama_base_round(ret_base, ret, conf->groupsize, err);
}

/* By what a pass takes that keeps least: activation checkpointing and gradients
 * by layer leave the chunks, and with them all bits, as they are. */
static void choose_head_rows(struct llama_conf *c, const struct llama_shape *s,
                             const struct llama_base *b,
                             const struct shards *shards)
{
    struct llama_arena unused = {.acts = NULL};
    struct model_plan rest = {.params = 0};
    struct llama_conf least = *c;
    least.head_rows = 1;
    least.recomputes = true;
    least.in_bwd = least.is_full;
    lay_out(&least, s, b, shards, NULL, &unused, &rest);
    c->head_rows = llama_head_rows(c, most_tokens(c), rest.bytes_total);
}

int llama_plan(const struct llama_conf *conf, struct model_plan *ret,
               struct error *err)
{
    struct llama_conf c = *conf;
    struct llama_shape s;
    struct llama_base b;
    struct llama_arena unused = {.acts = NULL};
    struct model_plan p = {.params = 0};
    struct shards shards;
    if (shape_of(conf, &s, &b, err) < 0 ||
        llama_shards_of(conf, &s, &b, 0, &shards, err) < 0)
        return -1;
    choose_head_rows(&c, &s, &b, &shards);
    lay_out(&c, &s, &b, &shards, NULL, &unused, &p);
    shards_clear(&shards);
    *ret = p;
    return 0;
}

/* ---- small members -------------------------------------------------------
 */

static void destroy(struct model *model)
{
    struct llama *m = llama_of(model);
    m->d->ops->release(m->d, m->memory);
    tokenizer_close(m->tokenizer);
    shards_clear(&m->shards);
    adapter_ranks_clear(&m->conf.ranks);
    free(m->mem.acts);
    free(m->host);
    free(m);
}

static void *params(struct model *model)
{
    return llama_of(model)->mem.params;
}

static void *grads(struct model *model)
{
    return llama_of(model)->mem.grads;
}

static void *state(struct model *model)
{
    (void)model;
    return NULL;
}

static const struct model_plan *planned(const struct model *model)
{
    return &((const struct llama *)model)->plan;
}

static void describe(const struct model *model, char *ret, size_t cap)
{
    const struct llama *m = (const struct llama *)model;
    const char *word = llama_arch(m->shape.c.arch)->word;
    char stays[120], shared[40] = "", least[20] = "";
    if (m->conf.ranks.least < m->conf.ranks.most)
        (void)snprintf(least, sizeof(least), "%d to ", m->conf.ranks.least);
    if (m->shards.n > 0)
        (void)snprintf(shared, sizeof(shared), ", sharded over %d ranks",
                       m->shards.ranks);
    const int n =
        m->shape.is_full
            ? snprintf(ret, cap, "%s: %" PRId64 " parameters, all trained%s",
                       word, m->shape.weights, shared)
            : snprintf(ret, cap,
                       "%s: %" PRId64 " parameters%s and %" PRId64
                       " of adapters of rank %s%d",
                       word, m->shape.weights, shared, m->shape.adapters, least,
                       m->shape.rank);
    if (n < 0 || (size_t)n >= cap)
        return;
    if (m->base.groupsize > 0)
        llama_say_rounded(m, ret + n, cap - (size_t)n);
    if (m->base.quantised == 0)
        return;
    llama_base_stays(&m->shape, &m->base, stays, sizeof(stays));
    (void)snprintf(
        ret + n, cap - (size_t)n,
        "; linears of the layers in NF4, %.2f bits a value%s%s%s",
        8 * (double)m->plan.bytes_quantised / (double)m->plan.quantised,
        stays[0] != '\0' ? ", but not " : "", stays,
        stays[0] != '\0' ? ", whose values are no multiple of 64" : "");
}

#define MEMBERS                                                               \
    .is_language = true, .destroy = destroy, .init = llama_init,              \
    .put = llama_put, .forward = llama_forward, .backward = llama_backward,   \
    .repeat = llama_repeat, .params = params, .grads = grads, .state = state, \
    .planned = planned, .ranges = llama_ranges, .export = llama_export,       \
    .export_marks = llama_export_marks, .is_adapter = llama_is_adapter,       \
    .save_config = llama_save_config, .import = llama_import,                 \
    .describe = describe, .save = llama_save, .save_card = llama_save_card,   \
    .sample = llama_sample, .part = llama_part, .reached = llama_reached,     \
    .floor = llama_floor

static const struct model_ops ops = {MEMBERS, .result = llama_result};
static const struct model_ops ops_of_pairs = {
    MEMBERS, .result = llama_pairs_result, .begin = llama_pairs_begin,
    .values = llama_pair_values};
/* Collectives are started by the host: a pass cannot be captured. */
static const struct model_ops ops_sharded = {
    MEMBERS, .result = llama_result, .is_sharded = true,
    .exchange = llama_exchange, .waited = llama_waited};
static const struct model_ops ops_sharded_pairs = {MEMBERS,
                                                   .result = llama_pairs_result,
                                                   .begin = llama_pairs_begin,
                                                   .values = llama_pair_values,
                                                   .is_sharded = true,
                                                   .exchange = llama_exchange,
                                                   .waited = llama_waited};

static const struct model_ops *ops_of(const struct llama_conf *c)
{
    if (c->shared_by > 1)
        return c->pairs ? &ops_sharded_pairs : &ops_sharded;
    return c->pairs ? &ops_of_pairs : &ops;
}

/* ---- create --------------------------------------------------------------
 */

/* cos and sin of every position and pair, from doubles. */
static int fill_rotation(struct llama *m, struct error *err)
{
    const struct llama_config *c = &m->shape.c;
    const enum dtype acc = dtype_acc(m->conf.dt);
    const int32_t half = c->head_dim / 2;
    const double by = llama_rope_factor(c);
    const int64_t n = (int64_t)m->conf.row_tokens * c->head_dim;
    double *freq = malloc((size_t)half * sizeof(*freq));
    void *table = malloc((size_t)n * dtype_bytes(acc));
    int rc = -1;
    if (freq == NULL || table == NULL) {
        (void)error_set(err, ERR_NOMEM, "model: table of rotations");
        goto out;
    }
    llama_frequencies(c, freq);
    for (int32_t p = 0; p < m->conf.row_tokens; p++)
        for (int32_t i = 0; i < half; i++) {
            const int64_t at = (int64_t)p * c->head_dim + 2 * (int64_t)i;
            dtype_set(acc, table, at, by * cos(p * freq[i]));
            dtype_set(acc, table, at + 1, by * sin(p * freq[i]));
        }
    if (m->d->ops->to_device(m->d, m->mem.rotation, table,
                             (size_t)n * dtype_bytes(acc), err) == 0)
        rc = m->d->ops->sync(m->d, err);
out:
    free(freq);
    free(table);
    return rc;
}

static int take_memory(struct llama *m, struct error *err)
{
    const struct device_ops *dev = m->d->ops;
    m->most = most_tokens(&m->conf);
    choose_head_rows(&m->conf, &m->shape, &m->base, &m->shards);
    m->attention_scale = 1 / sqrt(m->shape.c.head_dim);
    m->mem.acts = calloc((size_t)m->shape.c.layers, sizeof(*m->mem.acts));
    lay_out(&m->conf, &m->shape, &m->base, &m->shards, NULL, &m->mem, &m->plan);
    /* Losses and hits, as they lie in the arena, or a row of logits. */
    const size_t results =
        (size_t)m->most * (sizeof(double) + 4) + 2 * (size_t)ALIGN;
    const size_t row = (size_t)m->shape.c.vocab * sizeof(double);
    const size_t pairs = llama_pairs_host(&m->conf);
    size_t most = results > row ? results : row;
    m->host = malloc(most > pairs ? most : pairs);
    if (m->mem.acts == NULL || m->host == NULL)
        return error_set(err, ERR_NOMEM, "model: host memory for the results");
    if (dev->alloc(m->d, (size_t)m->plan.bytes_total, &m->memory, err) < 0)
        return error_wrap(err, "model of %" PRId64 " bytes",
                          m->plan.bytes_total);
    lay_out(&m->conf, &m->shape, &m->base, &m->shards, m->memory, &m->mem,
            &m->plan);
    if (m->shards.n > 0)
        llama_shard_open(m);
    return fill_rotation(m, err);
}

int llama_create(struct device *d, const struct llama_conf *conf,
                 struct model **ret, struct error *err)
{
    struct llama *m = calloc(1, sizeof(*m));
    if (m == NULL)
        return error_set(err, ERR_NOMEM, "model");
    m->model.ops = ops_of(conf);
    m->d = d;
    m->conf = *conf;
    m->conf.ranks = (struct adapter_ranks){.layers = 0};
    if (adapter_ranks_copy(&conf->ranks, &m->conf.ranks, err) < 0 ||
        shape_of(&m->conf, &m->shape, &m->base, err) < 0 ||
        llama_shards_of(conf, &m->shape, &m->base,
                        conf->comm != NULL ? conf->comm->rank : 0, &m->shards,
                        err) < 0 ||
        take_memory(m, err) < 0) {
        destroy(&m->model);
        return -1;
    }
    llama_reached(&m->model, 0);
    *ret = &m->model;
    return 0;
}
