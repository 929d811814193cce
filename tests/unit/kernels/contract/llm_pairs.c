/* llm_pairs.c - preference pairs: means and factors of rows, log p of answers,
 * and how much their tokens count. */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

/* ---- rows ---------------------------------------------------------------- */

static void rows_one(struct bed *b, int64_t rows, int32_t C)
{
    struct tensor x = tensor_make(b, rows * C, -2, 3);
    struct tensor mean = tensor_acc(b, rows, 0, 0);
    struct tensor by = tensor_acc(b, rows, -2, 2);
    double *want = zeros(rows), *scaled = zeros(rows * C);
    for (int64_t i = 0; i < rows * C; i++) {
        want[i / C] += x.v[i] / C;
        scaled[i] = x.v[i] * by.v[i / C];
    }
    must(b->d->ops->llm.row_means(b->d, b->dt, mean.p, x.p, rows, C, ERR));
    near(&mean, want, "row_means %lld x %d", (long long)rows, C);
    must(b->d->ops->llm.scale_rows(b->d, b->dt, x.p, by.p, rows, C, ERR));
    near(&x, scaled, "scale_rows %lld x %d", (long long)rows, C);
    free(want);
    free(scaled);
    tensor_drop(&x);
    tensor_drop(&mean);
    tensor_drop(&by);
}

/* ---- pairs --------------------------------------------------------------- */

enum { PAIRS = 5, ANSWERS = 2 * PAIRS, TOKENS = 330 };

/* The third pair is missing; an answer has 290 tokens. */
static const int32_t lengths[ANSWERS] = {3, 1, 7, 290, 0, 0, 9, 4, 5, 11};

struct pairs {
    struct bed *b;
    struct tensor loss, logits, log_p, mean, reference, by;
    struct pair_answer *here, *there;
    double want_p[ANSWERS], want_mean[ANSWERS];
};

static void make(struct pairs *k, struct bed *b)
{
    void *p = NULL;
    int32_t at = 0;
    *k = (struct pairs){.b = b};
    k->loss = tensor_acc(b, TOKENS, 0, 0.5);
    k->logits = tensor_acc(b, TOKENS, -1, 1);
    k->log_p = tensor_acc(b, ANSWERS, 0, 0);
    k->mean = tensor_acc(b, ANSWERS, 0, 0);
    k->reference = tensor_acc(b, ANSWERS, -6, -4);
    k->by = tensor_acc(b, TOKENS, 7, 7);
    k->here = calloc(ANSWERS, sizeof(*k->here));
    for (int i = 0; i < ANSWERS; i++) {
        k->here[i] = (struct pair_answer){at, lengths[i], k->reference.v[i]};
        for (int32_t t = at; t < at + lengths[i]; t++) {
            k->want_p[i] -= k->loss.v[t];
            k->want_mean[i] += k->logits.v[t] / lengths[i];
        }
        at += lengths[i];
    }
    const size_t bytes = ANSWERS * sizeof(*k->here);
    must(b->d->ops->alloc(b->d, bytes, &p, ERR));
    k->there = p;
    must(b->d->ops->to_device(b->d, k->there, k->here, bytes, ERR));
}

static void drop(struct pairs *k)
{
    tensor_drop(&k->loss);
    tensor_drop(&k->logits);
    tensor_drop(&k->log_p);
    tensor_drop(&k->mean);
    tensor_drop(&k->reference);
    tensor_drop(&k->by);
    k->b->d->ops->release(k->b->d, k->there);
    free(k->here);
}

static void sums(void *arg)
{
    struct pairs *k = arg;
    must(k->b->d->ops->llm.answer_sums(k->b->d, k->b->dt, k->log_p.p, k->mean.p,
                                       k->loss.p, k->logits.p, k->there,
                                       ANSWERS, ERR));
}

/* A pair's loss, in doubles. */
static double loss_of(double d, double beta, double smooth)
{
    return (1 - smooth) * log1p(exp(-beta * d)) + smooth * log1p(exp(beta * d));
}

/* Factors by differences of the formula of the loss: another one than the
 * kernel's. */
static void factors_one(struct pairs *k, double beta, double smooth, bool given)
{
    struct bed *b = k->b;
    const double scale = 0.25, h = 1e-5;
    const struct device_ops *ops = b->d->ops;
    double *want = zeros(TOKENS);
    sums(k);
    tensor_pull(&k->log_p);
    for (int i = 0; i < TOKENS; i++) {
        want[i] = k->by.v[i] = rounded(k->by.dt, 7); /* of no pair: as it was */
    }
    for (int i = 0; i < PAIRS; i++) {
        const struct pair_answer *c = &k->here[2 * i], *r = c + 1;
        const double d = k->log_p.v[2 * i] - k->log_p.v[2 * i + 1] -
                         k->reference.v[2 * i] + k->reference.v[2 * i + 1];
        const double slope =
            scale *
            (loss_of(d + h, beta, smooth) - loss_of(d - h, beta, smooth)) /
            (2 * h);
        for (int32_t t = 0; t < c->n; t++)
            want[c->first + t] = -slope;
        for (int32_t t = 0; t < r->n; t++)
            want[r->first + t] = slope;
    }
    tensor_push(&k->by);
    must(ops->llm.pair_factors(
        b->d, b->dt, k->by.p, k->log_p.p, given ? k->reference.p : NULL,
        k->there, PAIRS, bed_put(b, &scale, sizeof(scale)), beta, smooth, ERR));
    tensor_pull(&k->by);
    double off = 0;
    for (int i = 0; i < TOKENS; i++)
        off = fmax(off, fabs(k->by.v[i] - want[i]));
    /* Differences have 1e-10 of truncation and 1e-11 of rounding. */
    ok(off <= (b->dt == DT_F64 ? 1e-9 : 1e-5),
       "%s %s: pair_factors beta %g, smoothing %g, reference %s: %.2g", b->name,
       dtype_name(b->dt), beta, smooth, given ? "an array" : "of the answers",
       off);
    free(want);
}

static void pairs_refusals(struct pairs *k)
{
    struct bed *b = k->b;
    const struct llm_ops *o = &b->d->ops->llm;
    const double one = 1;
    const double *scale = bed_put(b, &one, sizeof(one));
    refused(o->row_means(b->d, b->dt, k->mean.p, k->loss.p, -1, 1, ERR));
    refused(o->scale_rows(b->d, b->dt, k->loss.p, k->by.p, 1, 0, ERR));
    refused(o->answer_sums(b->d, b->dt, k->log_p.p, k->mean.p, k->loss.p, NULL,
                           k->there, ANSWERS, ERR));
    refused(o->pair_factors(b->d, b->dt, k->by.p, k->log_p.p, NULL, k->there,
                            PAIRS, scale, 0, 0, ERR));
    refused(o->pair_factors(b->d, b->dt, k->by.p, k->log_p.p, NULL, k->there,
                            PAIRS, scale, 0.1, 0.6, ERR));
}

void contract_llm_pairs(struct bed *b)
{
    struct pairs k;
    rows_one(b, 0, 8);
    rows_one(b, 3, 1);
    rows_one(b, 5, 67);
    rows_one(b, 17, 128);
    make(&k, b);
    const struct call c = {b, sums, &k};
    same_bits(&c, &k.log_p, "answer_sums");
    sums(&k);
    near(&k.log_p, k.want_p, "answer_sums: log p");
    near(&k.mean, k.want_mean, "answer_sums: mean logits");
    factors_one(&k, 0.1, 0, true);
    factors_one(&k, 0.1, 0, false);
    factors_one(&k, 2, 0.1, true);
    factors_one(&k, 0.5, 0.5, false);
    pairs_refusals(&k);
    drop(&k);
}
