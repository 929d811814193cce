/* llama_pairs.c - preference pairs: log p of their answers by the model and by
 * the reference, their loss, and their values.
 *
 * The reference is the same model without its adapters, or where all weights
 * are trained the base itself. Its pass comes first and shares all arrays with
 * the model's: log p of each answer is all that it leaves. The factors of the
 * tokens in the gradient are the device's (kernels/llm/pairs.cu), losses and
 * rewards are made here, of the same log p.
 *
 * src  Rafailov et al. 2023, arXiv:2305.18290; torchtune 0.6.1, DPOLoss and
 *      lora_dpo_single_device.py (the values)
 */
#include <math.h>

#include "worker/llm/llama_internal.h"
#include "worker/llm/llama_pairs.h"

/* In the order of add_pair(). A mean logit is over the labelled tokens. */
const char *const llama_pair_values[] = {
    "rewards/chosen",  "rewards/rejected", "rewards/accuracies",
    "rewards/margins", "log_probs/chosen", "log_probs/rejected",
    "logits/chosen",   "logits/rejected",  NULL};

/* ---- the passes ---------------------------------------------------------- */

static const struct pair_answer *answers_of(const struct batch *b)
{
    return b->arrays[TOKENS_PAIR].data;
}

int llama_pairs_reference(struct llama *m, const struct batch *b,
                          struct error *err)
{
    int rc = -1;
    m->is_reference = true;
    if (llama_layers(m, b->arrays[TOKENS_ID].data, b->arrays[TOKENS_POS].data,
                     false, err) == 0 &&
        llama_head(m, b, false, false, err) == 0)
        rc = m->d->ops->llm.answer_sums(m->d, m->conf.dt, m->mem.reference,
                                        NULL, m->mem.loss, NULL, answers_of(b),
                                        2 * (int64_t)b->n, err);
    m->is_reference = false;
    return rc;
}

int llama_pairs_forward(struct llama *m, const struct batch *b, bool grads,
                        struct error *err)
{
    const struct llm_ops *ops = &m->d->ops->llm;
    const enum dtype dt = m->conf.dt;
    const void *reference = m->conf.is_precomputed ? NULL : m->mem.reference;
    if (ops->answer_sums(m->d, dt, m->mem.log_p, m->mem.logit, m->mem.loss,
                         m->mem.logits_mean, answers_of(b), 2 * (int64_t)b->n,
                         err) < 0)
        return -1;
    if (!grads)
        return 0;
    if (ops->pair_factors(m->d, dt, m->mem.factor, m->mem.log_p, reference,
                          answers_of(b), b->n, m->mem.scale, m->conf.beta,
                          m->conf.label_smoothing, err) < 0)
        return -1;
    if (llama_trains_head(m))
        return 0;
    return ops->scale_rows(m->d, dt, m->mem.labelled, m->mem.factor,
                           m->n_labelled, m->shape.c.hidden, err);
}

int llama_reference(struct model *model, const struct batch *b, double *ret,
                    struct error *err)
{
    struct llama *m = llama_of(model);
    const enum dtype acc = dtype_acc(m->conf.dt);
    const int32_t n = 2 * b->n;
    if (llama_check_batch(m, b, false, err) < 0)
        return -1;
    llama_repeat(model, b, false);
    if (llama_head_begin(m, err) < 0 || llama_pairs_reference(m, b, err) < 0 ||
        m->d->ops->to_host(m->d, m->host, m->mem.reference,
                           (size_t)n * dtype_bytes(acc), err) < 0)
        return -1;
    for (int32_t i = 0; i < n; i++)
        ret[i] = dtype_get(acc, m->host, i);
    m->n = 0; /* there is no result of the model */
    return 0;
}

const struct llama_config *llama_config_of(const struct model *model)
{
    return &((const struct llama *)model)->conf.shape;
}

/* ---- the result ---------------------------------------------------------- */

/* An answer's log p by the model and by the reference, and its mean logit. */
struct answer {
    double log_p, reference, logit;
    int32_t n;
};

static int32_t most_pairs(const struct llama_conf *c)
{
    return c->batch > c->batch_eval ? c->batch : c->batch_eval;
}

size_t llama_pairs_host(const struct llama_conf *c)
{
    const size_t answers = 2 * (size_t)most_pairs(c);
    return answers * (sizeof(struct pair_answer) + 3 * sizeof(double)) +
           (size_t)3 * 256; /* the arena aligns each */
}

/* The four arrays of the batch's answers, in m->host. */
struct fetched {
    const struct pair_answer *of;
    const char *log_p, *logit, *reference;
};

static int fetch(struct llama *m, const struct batch *b, struct fetched *ret,
                 struct error *err)
{
    const struct device_ops *ops = m->d->ops;
    const struct llama_arena *a = &m->mem;
    const size_t acc = dtype_acc_bytes(m->conf.dt), n = 2 * (size_t)b->n;
    char *to = (char *)m->host + n * sizeof(struct pair_answer);
    /* The arrays are contiguous: a single copy needs a single wait. */
    const size_t logit = (size_t)((char *)a->logit - (char *)a->log_p);
    const size_t reference = (size_t)((char *)a->reference - (char *)a->log_p);
    if (ops->to_host(m->d, m->host, answers_of(b),
                     n * sizeof(struct pair_answer), err) < 0 ||
        ops->to_host(m->d, to, a->log_p, reference + n * acc, err) < 0)
        return -1;
    *ret = (struct fetched){m->host, to, to + logit, to + reference};
    return 0;
}

static struct answer answer_of(const struct llama *m, const struct fetched *f,
                               int32_t i)
{
    const enum dtype acc = dtype_acc(m->conf.dt);
    return (struct answer){.log_p = dtype_get(acc, f->log_p, i),
                           .reference = m->conf.is_precomputed
                                            ? f->of[i].reference
                                            : dtype_get(acc, f->reference, i),
                           .logit = dtype_get(acc, f->logit, i),
                           .n = f->of[i].n};
}

/* -log sigmoid(x), without an overflow. */
static double softplus_of_minus(double x)
{
    return x > 0 ? log1p(exp(-x)) : log1p(exp(x)) - x;
}

static void add_pair(const struct llama_conf *conf, const struct answer *c,
                     const struct answer *r, struct model_result *sum)
{
    const double chosen = conf->beta * (c->log_p - c->reference);
    const double rejected = conf->beta * (r->log_p - r->reference);
    const double x = chosen - rejected, smooth = conf->label_smoothing;
    const double values[MODEL_VALUES] = {
        chosen,   rejected, chosen > rejected ? 1 : 0, x, c->log_p, r->log_p,
        c->logit, r->logit};
    sum->loss_sum +=
        (1 - smooth) * softplus_of_minus(x) + smooth * softplus_of_minus(-x);
    sum->hits += chosen > rejected;
    for (int i = 0; i < MODEL_VALUES; i++)
        sum->values[i] += values[i];
}

/* An adapter that was trained before is not its reference. */
void llama_pairs_begin(struct model *model)
{
    struct llama *m = llama_of(model);
    m->is_fresh = m->conf.adapter == NULL;
}

/* Before the first update the model equals its reference. A reference computed
 * in other batches is rounded differently: its tolerance grows with log p. */
static int check_first(const struct llama *m, const struct answer *c,
                       const struct answer *r, double loss, struct error *err)
{
    static const double tolerance[] = {
        [DT_F64] = 1e-12, [DT_F32] = 1e-6, [DT_F16] = 1e-2, [DT_BF16] = 1e-2};
    double most = tolerance[m->conf.dt];
    if (m->conf.is_precomputed)
        most *= 1 + m->conf.beta * (fabs(c->reference) + fabs(r->reference));
    if (fabs(loss - log(2)) <= most)
        return 0;
    return error_set(err, ERR_STATE,
                     "the loss of the first batch is %.9g, not log 2: the "
                     "model is not its reference before the first update: log "
                     "p of the first pair is %.9g and %.9g, by the reference "
                     "%.9g and %.9g",
                     loss, c->log_p, r->log_p, c->reference, r->reference);
}

int llama_pairs_result(struct model *model, const struct batch *b,
                       struct model_result *ret, struct error *err)
{
    struct llama *m = llama_of(model);
    struct model_result sum = {.loss_sum = 0};
    struct answer first[2] = {{.n = 0}};
    struct fetched f;
    int32_t pairs = 0;
    if (m->n == 0 || b->n != m->n)
        return error_set(err, ERR_STATE,
                         "model: the last forward pass had %d pairs, not %d",
                         m->n, b->n);
    if (fetch(m, b, &f, err) < 0)
        return -1;
    for (int32_t i = 0; i < b->n; i++) {
        const struct answer c = answer_of(m, &f, 2 * i);
        const struct answer r = answer_of(m, &f, 2 * i + 1);
        if (c.n == 0)
            continue;
        add_pair(&m->conf, &c, &r, &sum);
        if (pairs++ > 0)
            continue;
        first[0] = c;
        first[1] = r;
    }
    if (m->is_fresh && m->trained && pairs > 0) {
        m->is_fresh = false;
        if (check_first(m, &first[0], &first[1], sum.loss_sum / pairs, err) < 0)
            return -1;
    }
    *ret = sum;
    return 0;
}
