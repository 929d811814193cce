/* step_text.c - the calls of a training step of a Llama, in worker/train's
 * order for one rank, or the first of many: trainer_pass.c's batch, and
 * trainer_step.c's update. */
#include <stdio.h>

#include "tests/step/step.h"

#include "worker/llm/llama.h"
#include "worker/model_call.h"
#include "worker/train/optimizer.h"

enum { RANK = 16, ALL_LINEARS = 127, GROUP_OF_INT4 = 32 };

/* src  Grattafiori et al. 2024, arXiv:2407.21783, table 3; Qwen Team 2024,
 *      arXiv:2412.15115, table 1, and the config.json of Qwen2.5-7B */
#define LLAMA3_8B(n)                                                  \
    {                                                                 \
        .hidden = 4096, .ffn = 14336, .layers = (n), .vocab = 128256, \
        .heads = 32, .kv_heads = 8, .head_dim = 128                   \
    }
static const struct llama_config shapes[STEP_SHAPES] = {
    [STEP_LLAMA3_8B] = LLAMA3_8B(32),
    [STEP_LLAMA3_8B_8] = LLAMA3_8B(8),
    [STEP_LLAMA3_8B_2] = LLAMA3_8B(2),
    [STEP_QWEN2_7B] = {.hidden = 3584,
                       .ffn = 18944,
                       .layers = 28,
                       .vocab = 152064,
                       .heads = 28,
                       .kv_heads = 4,
                       .head_dim = 128},
};

void step_shape_words(enum step_shape shape, char *ret, size_t cap)
{
    const struct llama_config *c = &shapes[shape];
    (void)snprintf(ret, cap, "%d,%d,%d,%d,%d,%d", c->hidden, c->ffn, c->layers,
                   c->heads, c->kv_heads, c->vocab);
}

struct text_parts {
    struct device *d;
    struct comm *comm; /* NULL: one rank */
    struct model *m;
    struct optimizer optimizer;
    struct batch batch;
};

static struct llama_conf conf_of(const struct step_text *x)
{
    const bool is_full = x->method == STEP_FULL || x->method == STEP_QAT;
    const bool pairs = x->method == STEP_DPO;
    struct llama_conf c = {
        .shape = shapes[x->shape],
        .dt = DT_BF16,
        .is_full = is_full,
        .rank = is_full ? 0 : RANK,
        .alpha = 2 * RANK,
        .targets = is_full ? 0 : ALL_LINEARS,
        .quantizer = x->method == STEP_QLORA ? QUANTIZER_NF4
                     : x->method == STEP_QAT ? QUANTIZER_8DA4W
                                             : QUANTIZER_NONE,
        .groupsize = x->method == STEP_QAT ? GROUP_OF_INT4 : 0,
        .batch = x->rows,
        .batch_eval = 1,
        .row_tokens = x->row_tokens,
        .recomputes = x->recomputes,
        .pairs = pairs,
        .beta = 0.1,
    };
    c.shape.norm_eps = 1e-5;
    c.shape.rope_theta = 500000;
    c.shape.max_positions = x->row_tokens;
    return c;
}

static int take_batch(struct text_parts *p, const struct step_text *x,
                      struct error *err)
{
    const int32_t tokens = x->rows * x->row_tokens;
    const bool pairs = x->method == STEP_DPO;
    const size_t row = (size_t)x->row_tokens * sizeof(int32_t);
    struct batch b = {.n = x->rows, .valid = x->rows, .tokens = tokens};
    b.labelled = tokens - tokens / x->document;
    b.weight = pairs ? x->rows : b.labelled;
    for (int i = 0; i < TOKENS_LISTS + pairs; i++) {
        b.arrays[i].bytes =
            i == TOKENS_PAIR ? 2 * sizeof(struct pair_answer) : row;
        if (p->d->ops->alloc(p->d, (size_t)b.n * b.arrays[i].bytes,
                             &b.arrays[i].data, err) < 0)
            return -1;
    }
    p->batch = b;
    return 0;
}

static int take_optimizer(struct text_parts *p, const struct job_spec *spec,
                          struct error *err)
{
    struct model_range m[MODEL_RANGES];
    struct optimizer_range r[MODEL_RANGES];
    const int32_t n = model_ranges(p->m, m, MODEL_RANGES);
    if (n > MODEL_RANGES)
        return error_set(err, ERR_INVAL, "%d ranges", n);
    for (int32_t i = 0; i < n; i++)
        r[i] =
            (struct optimizer_range){m[i].first, m[i].count, m[i].is_norm_bias};
    return optimizer_init(&p->optimizer, p->d, spec, DT_BF16,
                          model_planned(p->m)->params, r, n, err);
}

static int text_calls(struct text_parts *p, struct error *err)
{
    double norm = 0;
    if (model_put(p->m, 1, 1, err) < 0 ||
        model_forward(p->m, &p->batch, true, err) < 0 ||
        model_backward(p->m, &p->batch, NULL, NULL, err) < 0 ||
        optimizer_grad_norm(&p->optimizer, model_grads(p->m), &norm, err) < 0)
        return -1;
    return optimizer_step(&p->optimizer, model_params(p->m), model_grads(p->m),
                          1, 1e-4, 1, err);
}

int step_record_shared(struct device *d, const struct step_text *x,
                       int32_t ranks, struct step *ret, int64_t *ret_bytes,
                       struct error *err)
{
    struct llama_conf conf = conf_of(x);
    struct job_spec spec = {.kind = SPEC_LLM};
    struct text_parts p = {.d = d};

    spec.train.optimizer.name = conf.is_full ? OPTIM_ADAMW8 : OPTIM_ADAMW;
    spec.train.optimizer.betas =
        (struct spec_numbers){.n = 2, .v = {0.9, 0.999}};
    spec.train.optimizer.eps = 1e-8;
    ret->n = 0;
    int rc = ranks > 0 ? comm_record_create(d, ranks, &p.comm, err) : 0;
    conf.shared_by = ranks;
    conf.comm = p.comm;
    if (rc == 0)
        rc = llama_create(d, &conf, &p.m, err);
    if (rc == 0)
        rc = take_batch(&p, x, err);
    if (rc == 0)
        rc = take_optimizer(&p, &spec, err);
    if (rc == 0) {
        *ret_bytes = model_planned(p.m)->bytes_total +
                     optimizer_bytes(&spec, DT_BF16, p.optimizer.n,
                                     p.optimizer.n_ranges);
        device_record_text(d, x->document, conf.shape.vocab);
        device_record_to(d, ret);
        rc = text_calls(&p, err);
        device_record_to(d, NULL);
        device_record_text(d, 0, 0);
    }
    optimizer_clear(&p.optimizer);
    model_destroy(p.m);
    if (p.comm != NULL)
        p.comm->ops->destroy(p.comm);
    return rc;
}

int step_record_text(struct device *d, const struct step_text *x,
                     struct step *ret, int64_t *ret_bytes, struct error *err)
{
    return step_record_shared(d, x, 0, ret, ret_bytes, err);
}
