/* llm_attention_step.c - attention of one token at a time gives what attention
 * of the whole document does, and reads no token behind it. */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

static int step(struct attend_case *c, int64_t row, int64_t rows,
                struct error *err)
{
    struct device *d = c->b->d;
    struct attention s = c->s;

    s.rows = rows;
    return d->ops->llm.attention_step(
        d, c->b->dt, attend_at(c, &c->o, row * c->ldo),
        attend_at(c, &c->x, row * c->ld + attend_part(c, 0)),
        attend_at(c, &c->x, attend_part(c, 1)),
        attend_at(c, &c->x, attend_part(c, 2)), c->ld, &s, err);
}

static void step_one(struct bed *b, const struct layout *l, int32_t window)
{
    struct attend_case c = attend_make(b, l);
    c.s.window = window;
    struct expected e = attend_expect(&c);

    for (int64_t i = 0; i < c.s.rows; i++)
        must(step(&c, i, i + 1, ERR));
    near(&c.o, e.o,
         "attention of %lld tokens in turn, %d/%d heads of %d, window %d",
         (long long)c.s.rows, l->heads, l->kv_heads, l->D, window);
    expected_drop(&e);
    attend_drop(&c);
}

/* The tokens behind have no values yet. */
static void step_behind(struct bed *b)
{
    static const struct layout l = {{40}, 2, 1, 8, false};
    struct attend_case c = attend_make(b, &l);
    const int64_t part = attend_part(&c, 1);

    for (int64_t i = 21; i < 40; i++)
        for (int64_t k = part; k < c.ld; k++)
            c.x.v[i * c.ld + k] = NAN;
    tensor_push(&c.x);
    must(step(&c, 20, 21, ERR));
    tensor_pull(&c.o);
    int finite = 0;
    for (int64_t k = 0; k < part; k++)
        finite += isfinite(c.o.v[20 * c.ldo + k]) != 0;
    is_int(finite, part, "a token sees none behind it");
    must(step(&c, 20, 22, ERR));
    tensor_pull(&c.o);
    finite = 0;
    for (int64_t k = 0; k < part; k++)
        finite += isfinite(c.o.v[20 * c.ldo + k]) != 0;
    is_int(finite, 0, "and a NaN that it sees is one");
    attend_drop(&c);
}

/* Token 21 is a NaN, and 39 has a window that ends behind it or with it. */
static void step_before(struct bed *b)
{
    static const struct layout l = {{40}, 2, 1, 8, false};
    struct attend_case c = attend_make(b, &l);
    const int64_t part = attend_part(&c, 1);

    for (int64_t k = part; k < c.ld; k++)
        c.x.v[21 * c.ld + k] = NAN;
    tensor_push(&c.x);
    for (int32_t window = 18; window <= 19; window++) {
        c.s.window = window;
        must(step(&c, 39, 40, ERR));
        tensor_pull(&c.o);
        const bool has = window == 19;
        ok(attend_differ(&c.o, NULL, c.ldo, 39, 40) == (has ? part : 0),
           "a window of %d %s a NaN", window, has ? "has" : "has not");
    }
    attend_drop(&c);
}

static void step_refusals(struct bed *b)
{
    static const struct layout l = {{3}, 2, 1, 8, false};
    struct attend_case c = attend_make(b, &l);
    double *was;

    tensor_pull(&c.o);
    was = tensor_values(&c.o);
    refused(step(&c, 0, 0, ERR));
    c.s.kv_heads = 3;
    refused(step(&c, 0, 1, ERR));
    c.s.kv_heads = 1;
    c.s.head_dim = 257;
    refused(step(&c, 0, 1, ERR));
    c.s.head_dim = 8;
    c.s.window = -1;
    refused(step(&c, 0, 1, ERR));
    c.s.window = 0;
    c.ld = 7;
    refused(step(&c, 0, 1, ERR));
    same(&c.o, was, "a refused call writes nothing");
    free(was);
    attend_drop(&c);
}

void contract_llm_attention_step(struct bed *b)
{
    static const struct layout few[] = {
        {{1}, 1, 1, 1, false},    {{3}, 4, 2, 8, false},
        {{40}, 2, 2, 7, false},   {{20}, 3, 1, 65, false},
        {{9}, 8, 2, 64, false},   {{12}, 2, 1, 128, false},
        {{11}, 2, 1, 256, false}, {{70}, 2, 1, 2, false},
    };

    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        step_one(b, &few[i], 0);
    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        step_one(b, &few[i], (int32_t)(i * i) + 1);
    step_one(b, &few[2], 39);
    step_one(b, &few[2], 40);
    if (!b->small)
        step_one(b, &(const struct layout){{300}, 4, 2, 32, false}, 0);
    if (!b->small)
        step_one(b, &(const struct layout){{300}, 4, 2, 32, false}, 100);
    step_behind(b);
    step_before(b);
    step_refusals(b);
}
