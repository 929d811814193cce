/* llm_step.c - what must not change a step of a Llama: packing, padding,
 * activation checkpointing, and how many rows of logits there are at a time.
 *
 * On the model that is shipped, in fp64: packed and unpacked rows agree to
 * 1e-12, chunks too; activation checkpointing gives the same bits, in fp32
 * and bf16 as well. The gradient beside dropout is that of central differences.
 */
#include <math.h>

#include "tests/unit/worker/llm_rig.h"
#include "worker/llm/llama_internal.h"

static char stories[4096], untied[4096];

static const int32_t docs[3][9] = {
    {1, 43, 77, 61, 38, 66, 40, 30, 5},
    {1, 77, 9, 29, 31},
    {1, 41, 63, 37, 67, 28, 19},
};
static const int32_t lengths[3] = {9, 5, 7}, answers[3] = {4, 1, 3};

static struct llama_conf conf_of(bool is_full, enum dtype dt)
{
    return (struct llama_conf){.dt = dt,
                               .is_full = is_full,
                               .rank = 4,
                               .alpha = 8,
                               .targets = 255 - LORA_OUTPUT,
                               .batch = 3,
                               .batch_eval = 3,
                               .row_tokens = 24,
                               .dir = stories};
}

/* Three rows with padding, or one pack with padding. */
static void write_rows(struct llm_rows *r, bool packed)
{
    llm_begin(r, packed ? 1 : 3, packed ? 24 : 10);
    for (int i = 0; i < 3; i++) {
        llm_add(r, docs[i], lengths[i], answers[i]);
        if (!packed)
            llm_fill(r);
    }
    llm_fill(r);
}

struct outcome {
    double loss, *grads;
    int64_t n;
};

static struct outcome run(const struct llama_conf *conf, bool packed)
{
    static struct llm_rows rows;
    struct llm_rig g;
    struct outcome o;
    llm_rig_open(&g, conf, 7);
    llm_shake(&g, 3);
    write_rows(&rows, packed);
    llm_rig_rows(&g, &rows);
    o.loss = llm_pass(&g, 0.25);
    o.grads = llm_grads(&g);
    o.n = model_planned(g.m)->params;
    llm_rig_close(&g);
    return o;
}

static double apart(const struct outcome *a, const struct outcome *b)
{
    double off = fabs(a->loss - b->loss) / fabs(b->loss), most = 0, d = 0;
    for (int64_t i = 0; i < b->n; i++) {
        most = fmax(most, fabs(b->grads[i]));
        d = fmax(d, fabs(a->grads[i] - b->grads[i]));
    }
    return a->n == b->n && most > 0 ? fmax(off, d / most) : (double)INFINITY;
}

static void near(const struct llama_conf *a, bool a_packed,
                 const struct llama_conf *b, bool b_packed, double most,
                 const char *what)
{
    struct outcome x = run(a, a_packed), y = run(b, b_packed);
    const double off = apart(&x, &y);
    ok(off <= most, "%s, %s, %s: %.2g apart", what,
       a->is_full ? "full" : "lora", dtype_name(a->dt), off);
    free(x.grads);
    free(y.grads);
}

static void test_method(bool is_full)
{
    const struct llama_conf plain = conf_of(is_full, DT_F64);
    struct llama_conf other = plain;
    near(&plain, true, &plain, false, 1e-12, "packed and unpacked");
    other.head_rows = 3;
    near(&other, false, &plain, false, 1e-12, "three rows of logits at a time");
    other.dir = untied;
    other.targets = is_full ? 0 : 255;
    struct llama_conf whole = other;
    whole.head_rows = 0;
    near(&other, true, &whole, true, 1e-12, "the same, output layer trained");
    static const enum dtype types[] = {DT_F64, DT_F32, DT_BF16};
    for (int i = 0; i < 3; i++) {
        struct llama_conf keeps = conf_of(is_full, types[i]), again;
        again = keeps;
        again.recomputes = true;
        near(&again, true, &keeps, true, 0, "activation checkpointing");
        keeps.dropout = again.dropout = is_full ? 0 : 0.2;
        near(&again, false, &keeps, false, 0, "the same, with dropout");
    }
}

/* ---- each chunk's logits are made once ----------------------------------- */

static struct device_ops counting;
static int (*counted)(struct device *d, enum dtype dt, bool ta, bool tb,
                      int32_t m, int32_t n, int32_t k, double alpha,
                      const void *A, int32_t lda, const void *B, int32_t ldb,
                      double beta, void *C, int32_t ldc, struct error *err);
enum { CHUNK = 3 };
static int32_t logits, vocab, hidden; /* rows of them; their product */

static int count(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
                 int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
                 const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
                 struct error *err)
{
    logits += !ta && tb && n == vocab && k == hidden && m <= CHUNK ? m : 0;
    return counted(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc,
                   err);
}

/* Rows of logits that a step makes, a chunk at a time. */
static void test_once(bool is_full, uint32_t targets, const char *dir)
{
    static struct llm_rows rows;
    struct llama_conf conf = conf_of(is_full, DT_F32);
    struct llm_rig g;
    conf.targets = targets;
    conf.dir = dir;
    conf.head_rows = CHUNK;
    llm_rig_open(&g, &conf, 7);
    write_rows(&rows, true);
    llm_rig_rows(&g, &rows);
    counting = *g.d->ops;
    counted = counting.gemm;
    counting.gemm = count;
    const struct device_ops *own = g.d->ops;
    g.d->ops = &counting;
    logits = 0;
    vocab = llama_of(g.m)->shape.c.vocab;
    hidden = llama_of(g.m)->shape.c.hidden;
    (void)llm_pass(&g, 1);
    g.d->ops = own;
    ok(logits == llama_of(g.m)->n_labelled,
       "%s of %s: %d rows of logits for %d labels", is_full ? "full" : "lora",
       targets == 255 ? "the output, too" : "layers", logits,
       llama_of(g.m)->n_labelled);
    llm_rig_close(&g);
}

/* Moves the parameters by so much of v. */
static void move(struct llm_rig *g, const double *start, const double *v,
                 double by)
{
    struct error err = ERROR_INIT;
    const int64_t n = model_planned(g->m)->params;
    double *p = malloc((size_t)n * sizeof(*p));
    for (int64_t i = 0; i < n; i++)
        p[i] = start[i] + by * v[i];
    must(g->d->ops->to_device(g->d, model_params(g->m), p,
                              (size_t)n * sizeof(*p), &err),
         &err);
    must(g->d->ops->sync(g->d, &err), &err);
    free(p);
}

/* Along the gradient, which has its own square as derivative. A step of 1e-5
 * and 1e-7 as the kernels' (kernels/README.md). */
static void test_differences(uint32_t targets, double dropout)
{
    static struct llm_rows rows;
    struct error err = ERROR_INIT;
    struct llama_conf conf = conf_of(false, DT_F64);
    struct llm_rig g;
    double square = 0;
    conf.targets = targets;
    conf.dropout = dropout;
    llm_rig_open(&g, &conf, 7);
    llm_shake(&g, 3);
    write_rows(&rows, true);
    llm_rig_rows(&g, &rows);
    const int64_t n = model_planned(g.m)->params;
    double *start = malloc((size_t)n * sizeof(*start));
    must(g.d->ops->to_host(g.d, start, model_params(g.m),
                           (size_t)n * sizeof(*start), &err),
         &err);
    (void)llm_pass(&g, 1);
    double *v = llm_grads(&g);
    for (int64_t i = 0; i < n; i++)
        square += v[i] * v[i];
    const double step = 1e-5 / sqrt(square);
    move(&g, start, v, step);
    const double more = llm_pass(&g, 1);
    move(&g, start, v, -step);
    const double off = fabs((more - llm_pass(&g, 1)) / (2 * step) / square - 1);
    ok(square > 0 && off <= 1e-7,
       "the gradient with dropout %g, targets %u: %.2g from differences",
       dropout, targets, off);
    free(v);
    free(start);
    llm_rig_close(&g);
}

/* A layer is written out from four bits again for each of its passes. */
static void test_quantised(enum spec_quantizer quantizer)
{
    static const enum dtype types[] = {DT_F64, DT_F32, DT_F16, DT_BF16};
    for (int i = 0; i < 4; i++) {
        struct llama_conf keeps = conf_of(false, types[i]), again;
        keeps.quantizer = quantizer;
        again = keeps;
        again.recomputes = true;
        near(&again, true, &keeps, true, 0,
             "four bits, activation checkpointing");
        if (i > 0)
            continue;
        near(&keeps, true, &keeps, false, 1e-12,
             "four bits, packed and unpacked");
    }
}

static void test_head_rows(void)
{
    static const struct {
        int32_t vocab, asked;
        enum dtype dt;
        int64_t tokens, rest;
        int32_t rows;
    } cases[] = {
        {128256, 0, DT_BF16, 16384, (int64_t)10 << 30, 2048},
        {128256, 0, DT_BF16, 16384, (int64_t)4 << 30, 1536}, /* 1,674 */
        {128256, 0, DT_BF16, 16384, 0, 1024},                /* 1,046 */
        {128256, 0, DT_F64, 16384, 0, 256},                  /* 261 */
        {1000000, 0, DT_F64, 16384, 0, 33},
        {512, 0, DT_BF16, 16384, 0, 2048},
        {512, 0, DT_BF16, 300, 0, 300},
        {512, 3, DT_BF16, 300, 0, 3},
        {100000000, 0, DT_F64, 300, 0, 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct llama_conf c = {.shape.vocab = cases[i].vocab,
                                     .dt = cases[i].dt,
                                     .head_rows = cases[i].asked};
        const int32_t rows =
            llama_head_rows(&c, cases[i].tokens, cases[i].rest);
        ok(rows == cases[i].rows, "%d rows of logits of %d words", rows,
           cases[i].vocab);
    }
}

/* All weights of a Llama of 1B: gradients by layer take a fifth of the memory
 * of gradients at once, and the chunks stay, whose size decides how sums round.
 */
static void test_head_rows_by_layer(void)
{
    struct llama_conf conf = {.dt = DT_BF16,
                              .is_full = true,
                              .batch = 2,
                              .batch_eval = 2,
                              .row_tokens = 2048,
                              .shape = {.hidden = 2048,
                                        .ffn = 8192,
                                        .layers = 16,
                                        .heads = 32,
                                        .kv_heads = 8,
                                        .head_dim = 64,
                                        .vocab = 128256,
                                        .tied = true}};
    struct error err = ERROR_INIT;
    struct model_plan all, by_layer;
    ok(llama_plan(&conf, &all, &err) == 0, "a plan of 1B: %s", err.msg);
    conf.in_bwd = true;
    ok(llama_plan(&conf, &by_layer, &err) == 0 &&
           by_layer.bytes_grads < all.bytes_grads,
       "  and one with gradients by layer");
    ok(all.bytes_work == by_layer.bytes_work,
       "  which has as many rows of logits: %lld and %lld bytes",
       (long long)all.bytes_work, (long long)by_layer.bytes_work);
}

/* A batch with no labelled token has gradients, of zero. */
static void test_nothing_labelled(bool is_full)
{
    static struct llm_rows rows;
    const struct llama_conf conf = conf_of(is_full, DT_F64);
    struct llm_rig g;
    double most = 0;
    llm_rig_open(&g, &conf, 7);
    write_rows(&rows, false);
    llm_rig_rows(&g, &rows);
    (void)llm_pass(&g, 1);
    rows.n_labelled = 0;
    llm_rig_rows(&g, &rows);
    const double loss = llm_pass(&g, 1);
    double *v = llm_grads(&g);
    for (int64_t i = 0; i < model_planned(g.m)->params; i++)
        most = fmax(most, fabs(v[i]));
    ok(loss == 0 && most == 0, "no labelled token: no loss and no gradient");
    free(v);
    llm_rig_close(&g);
}

int main(void)
{
    (void)llm_path("jobs/examples/stories260K", stories);
    (void)llm_path("tests/data/llama-untied", untied);
    for (int full = 0; full < 2; full++) {
        test_method(full != 0);
        test_nothing_labelled(full != 0);
    }
    test_once(true, 0, untied);
    test_once(true, 0, stories);
    test_once(false, 255, untied);
    test_once(false, LORA_Q, stories);
    test_head_rows();
    test_head_rows_by_layer();
    test_differences(255 - LORA_OUTPUT, 0);
    test_differences(255 - LORA_OUTPUT, 0.3);
    test_differences(LORA_Q | LORA_V | LORA_UP, 0.3);
    test_quantised(QUANTIZER_NF4);
    test_quantised(QUANTIZER_NF4_SINGLE);
    return tap_done();
}
