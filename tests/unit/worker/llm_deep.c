/* llm_deep.c - models of so many layers that their tensors are more than
 * MODEL_RANGES: a Qwen3 of 100 layers, a Llama of 140, and adapters.
 *
 * Neighbours of a kind are one range, and these are still more than that. All
 * are found, none is written beyond what the caller has room for, and a step
 * of all weights keeps weight decay from the norms alone.
 */
#include <math.h>

#include "tests/unit/worker/llm_drawn.h"
#include "worker/train/optimizer.h"

enum { TOKENS = 12 };
#define SMALL                                                       \
    .vocab = 20, .hidden = 8, .ffn = 12, .heads = 2, .kv_heads = 1, \
    .head_dim = 4, .max_positions = 64

static const struct deep {
    const char *name;
    struct llama_config c;
    bool is_full;
    int32_t each, more; /* ranges: of a layer, and beside them */
} deep[] = {
    /* norm1, q k v, their norms, o, norm2, the others; three of the model. */
    {"Qwen3 of 100 layers",
     {SMALL, .arch = ARCH_QWEN3, .layers = 100, .head_norms = true},
     .is_full = true,
     .each = 6,
     .more = 3},
    {"tied Llama of 140 layers",
     {SMALL, .layers = 140, .tied = true},
     .is_full = true,
     .each = 4,
     .more = 2},
    /* The bias of down is beside the next layer's norm, and not with it. */
    {"Llama of 130 layers with biases",
     {SMALL, .layers = 130,
      .biases = 1u << PRODUCT_QKV | 1u << PRODUCT_O | 1u << PRODUCT_GATE_UP |
                1u << PRODUCT_DOWN},
     .is_full = true,
     .each = 9,
     .more = 3},
    {"adapters of 140 layers", {SMALL, .layers = 140}, .more = 1},
};

static double drawn(const struct llama_tensor *t, int32_t k, int64_t i)
{
    const double v = sin(1.7 * (double)i + 0.3 * k);
    return t->is_norm ? 1 + 0.1 * v : 0.4 * v;
}

static struct model_range *room_for(int32_t n)
{
    /* One more, which is not written. */
    struct model_range *r = calloc((size_t)n + 1, sizeof(*r));
    if (r == NULL)
        exit(1);
    r[n].first = -7;
    return r;
}

/* Returns the ranges, from malloc. */
static struct model_range *test_ranges(const struct deep *d,
                                       const struct model *m, int32_t *ret_n)
{
    const int32_t n = model_ranges(m, NULL, 0), some = MODEL_RANGES;
    struct model_range *r = room_for(n), *few = room_for(some);
    int64_t at = 0;
    is_int(n, d->each * d->c.layers + d->more, d->name);
    is_int(model_planned(m)->ranges, n, "the plan knows how many");
    is_int(model_ranges(m, r, n), n, "as many are given");
    bool in_order = r[n].first == -7;
    for (int32_t i = 0; i < n && in_order; i++) {
        in_order = r[i].first == at && r[i].count > 0;
        at += r[i].count;
    }
    ok(in_order && at == model_planned(m)->params,
       "they cover the parameters in order");
    const int32_t fit = n < some ? n : some;
    is_int(model_ranges(m, few, some), n, "also if there is less room");
    ok(memcmp(few, r, (size_t)fit * sizeof(*r)) == 0 && few[some].first == -7,
       "then the first of them, and no more");
    free(few);
    *ret_n = n;
    return r;
}

/* Whether each tensor is in a range of its kind, and each range of weights in
 * one unit, as a layer is. */
static void test_kinds(const struct llm_rig *g, const struct model_range *r,
                       int32_t n)
{
    struct error err = ERROR_INIT;
    struct llama_shape s;
    int64_t wrong = 0, crossing = 0;
    int32_t in = 0;
    must(llama_shape_init(&s, &g->conf.shape, g->conf.is_full, g->conf.rank,
                          g->conf.alpha, g->conf.targets, &err),
         &err);
    for (int32_t i = 0; i < llama_trained_count(&s); i++) {
        struct llama_tensor t;
        llama_trained(&s, i, &t);
        while (in < n && r[in].first + r[in].count <= t.at)
            in++;
        wrong += in == n || r[in].is_norm_bias != t.is_norm ||
                 t.at + t.n > r[in].first + r[in].count;
        crossing += s.is_full && llama_unit_at(&s, r[in].first) !=
                                     llama_unit_at(&s, t.at + t.n - 1);
    }
    is_int(wrong, 0, "a tensor is in one range of its kind");
    is_int(crossing, 0, "which ends with its layer");
}

static double *params_of(struct llm_rig *g)
{
    const int64_t n = model_planned(g->m)->params;
    struct error err = ERROR_INIT;
    double *p = malloc((size_t)n * sizeof(*p));
    must(g->d->ops->to_host(g->d, p, model_params(g->m), (size_t)n * sizeof(*p),
                            &err),
         &err);
    return p;
}

static void step(struct llm_rig *g, enum spec_optimizer name,
                 const struct optimizer_range *r, int32_t n)
{
    struct job_spec spec = {.version = 1};
    struct error err = ERROR_INIT;
    struct optimizer o;
    const int64_t params = model_planned(g->m)->params;
    spec.train.optimizer.name = name;
    spec.train.optimizer.no_decay = NO_DECAY_NORM_BIAS;
    spec.train.optimizer.weight_decay = 0.5;
    spec.train.optimizer.betas =
        (struct spec_numbers){.n = 2, .v = {0.9, 0.999}};
    spec.train.optimizer.eps = 1e-8;
    must(optimizer_init(&o, g->d, &spec, DT_F64, params, r, n, &err), &err);
    if (name == OPTIM_ADAMW8)
        ok(optimizer_bytes(&spec, DT_F64, params, n) >=
               2 * (params + o.blocks * (int64_t)sizeof(float)),
           "the plan has room for the blocks of all ranges");
    must(optimizer_step(&o, model_params(g->m), model_grads(g->m), 1, 0.1, 1,
                        &err),
         &err);
    optimizer_clear(&o);
}

/* A step of SGD is a difference; one of AdamW is lr times a sign, so that of
 * adamw8bit, whose mean of a gradient is exact to 1 %, is known as well. */
static void test_steps(struct llm_rig *g, const struct model_range *m,
                       int32_t n)
{
    struct optimizer_range *r = calloc((size_t)n, sizeof(*r));
    struct error err = ERROR_INIT;
    double *grads = llm_grads(g), *before = params_of(g);
    const int64_t params = model_planned(g->m)->params;
    for (int32_t i = 0; i < n; i++)
        r[i] =
            (struct optimizer_range){m[i].first, m[i].count, m[i].is_norm_bias};
    step(g, OPTIM_SGD, r, n);
    double *after = params_of(g), worst = 0;
    for (int32_t i = 0; i < n; i++)
        for (int64_t k = m[i].first; k < m[i].first + m[i].count; k++) {
            const double decay = m[i].is_norm_bias ? 0 : 0.5 * before[k];
            const double want = before[k] - 0.1 * (grads[k] + decay);
            worst = fmax(worst, fabs(after[k] - want));
        }
    ok(worst < 1e-14, "a step of all weights, norms without decay: %.2g",
       worst);
    must(g->d->ops->to_device(g->d, model_params(g->m), before,
                              (size_t)params * sizeof(*before), &err),
         &err);
    step(g, OPTIM_ADAMW8, r, n);
    free(after);
    after = params_of(g);
    int64_t moved = 0, odd = 0;
    for (int32_t i = 0; i < n; i++)
        for (int64_t k = m[i].first; k < m[i].first + m[i].count; k++) {
            const double decay = m[i].is_norm_bias ? 0 : 0.05 * before[k];
            const double by = fabs(before[k] - decay - after[k]);
            moved += by > 0;
            odd += !(by < 0.11);
        }
    ok(moved > params / 2 && odd == 0, "one of adamw8bit: %lld of %lld moved",
       (long long)moved, (long long)params);
    free(after);
    free(before);
    free(grads);
    free(r);
}

static void test_deep(const struct deep *d)
{
    struct llm_rig g;
    struct llm_rows rows;
    char dir[] = "/tmp/mgpu-deep.XXXXXX";
    int32_t ids[TOKENS], n = 0;
    if (mkdtemp(dir) == NULL)
        exit(1);
    llm_write_model(dir, &d->c, drawn);
    const struct llama_conf conf = {.dt = DT_F64,
                                    .is_full = d->is_full,
                                    .rank = 2,
                                    .alpha = 4,
                                    .targets = LORA_Q | LORA_V,
                                    .batch = 1,
                                    .batch_eval = 1,
                                    .row_tokens = TOKENS,
                                    .head_rows = 3,
                                    .dir = dir};
    llm_rig_open(&g, &conf, 1);
    struct model_range *r = test_ranges(d, g.m, &n);
    test_kinds(&g, r, n);
    if (d->is_full) {
        for (int32_t i = 0; i < TOKENS; i++)
            ids[i] = 5 * i % d->c.vocab;
        llm_begin(&rows, 1, TOKENS);
        llm_add(&rows, ids, TOKENS, 1);
        llm_rig_rows(&g, &rows);
        const double loss = llm_pass(&g, 1.0 / rows.n_labelled);
        ok(isfinite(loss) && loss > 0, "a loss of %.3g", loss);
        test_steps(&g, r, n);
    }
    free(r);
    llm_rig_close(&g);
    llm_remove_model(dir);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++)
        test_deep(&deep[i]);
    return tap_done();
}
