/* token_choice.c - see token_choice.h.
 *
 * src  Holtzman et al. 2019, arXiv:1904.09751 (top_p) */
#include "worker/llm/token_choice.h"

#include <math.h>
#include <stdlib.h>

struct token_rank {
    double p; /* relative to the likeliest */
    int32_t id;
};

int token_choice_init(struct token_choice *c, int32_t vocab, double temperature,
                      int32_t top_k, double top_p, uint32_t seed,
                      struct error *err)
{
    *c = (struct token_choice){.vocab = vocab,
                               .temperature = temperature,
                               .top_p = top_p > 0 ? top_p : 1,
                               .top_k = top_k > 0 ? top_k : vocab};
    if (!(temperature >= 0 && temperature <= 100) || top_k < 0 ||
        !(top_p >= 0 && top_p <= 1))
        return error_set(err, ERR_INVAL,
                         "temperature %g, top_k %d, top_p %g: expected 0..100, "
                         "0 or more, 0..1",
                         temperature, top_k, top_p);
    rng_seed(&c->rng, seed);
    c->logits = calloc((size_t)vocab, sizeof(*c->logits));
    c->rank = calloc((size_t)vocab, sizeof(*c->rank));
    if (c->logits != NULL && c->rank != NULL)
        return 0;
    token_choice_clear(c);
    return error_set(err, ERR_NOMEM, "logits");
}

void token_choice_clear(struct token_choice *c)
{
    free(c->logits);
    free(c->rank);
    c->logits = NULL;
    c->rank = NULL;
}

static int32_t likeliest(const struct token_choice *c)
{
    int32_t best = 0;
    for (int32_t i = 1; i < c->vocab; i++)
        if (c->logits[i] > c->logits[best])
            best = i;
    return best;
}

/* The likeliest first; of equal ones the first. */
static int by_rank(const void *a, const void *b)
{
    const struct token_rank *x = a, *y = b;
    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* How many of the first n ranks reach top_p of their sum. */
static int32_t nucleus(const struct token_choice *c, int32_t n, double *ret_sum)
{
    double all = 0, sum = 0;
    int32_t k = 0;
    for (int32_t i = 0; i < n; i++)
        all += c->rank[i].p;
    while (k < n && (k == 0 || sum < c->top_p * all))
        sum += c->rank[k++].p;
    *ret_sum = sum;
    return k;
}

int32_t token_choice_next(struct token_choice *c)
{
    const int32_t best = likeliest(c);
    double sum;
    if (c->temperature == 0)
        return best;
    for (int32_t i = 0; i < c->vocab; i++)
        c->rank[i] = (struct token_rank){
            exp((c->logits[i] - c->logits[best]) / c->temperature), i};
    if (c->top_k < c->vocab || c->top_p < 1)
        qsort(c->rank, (size_t)c->vocab, sizeof(*c->rank), by_rank);
    const int32_t n =
        nucleus(c, c->top_k < c->vocab ? c->top_k : c->vocab, &sum);
    double at = rng_uniform(&c->rng) * sum;
    for (int32_t i = 0; i < n - 1; i++)
        if ((at -= c->rank[i].p) < 0)
            return c->rank[i].id;
    return c->rank[n - 1].id;
}
