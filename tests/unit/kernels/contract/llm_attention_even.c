/* llm_attention_even.c - attention of layouts that a GPU's tensor cores take:
 * 16-bit values, rows at multiples of 16 bytes, heads of 64 and 128 values.
 *
 * There a tile has 64 keys, 32 or 16 in the gradient, and a warp 16 rows, which
 * are queries of the heads of a group. Documents end at every place of a tile,
 * and groups divide the rows of a warp or not. $MGPU_TEST_ALL, which
 * .ci/nightly sets, takes every place and longer documents.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/llm_attention_case.h"

/* A document that ends after n tokens, and one behind it. */
static void attend_cut(struct bed *b, int32_t n)
{
    const struct layout l = {{n, 66}, 2, 1, 64, true};

    attend_all(b, &l);
}

/* A token of a long document whose keys and values are all the same: its output
 * is that value, whatever the number of tiles. */
static void attend_equal(struct bed *b)
{
    static const struct layout l = {{300}, 4, 1, 64, true};
    struct attend_case c = attend_make(b, &l);

    for (int64_t i = 0; i < c.s.rows; i++)
        for (int64_t k = attend_part(&c, 1); k < c.ld; k++)
            c.x.v[i * c.ld + k] = c.x.v[k];
    tensor_push(&c.x);
    attend_forward(&c);
    double *want = tensor_values(&c.o);
    for (int64_t i = 0; i < c.s.rows; i++)
        for (int32_t k = 0; k < l.heads * l.D; k++)
            want[i * c.ldo + k] = c.x.v[attend_part(&c, 2) + k % l.D];
    near(&c.o, want, "equal keys and values: the value");
    free(want);
    attend_drop(&c);
}

/* No tokens: nothing is written. */
static void attend_nothing(struct bed *b)
{
    static const struct attention none = {0, 2, 1, 64, 1, 0};
    struct tensor t = tensor_make(b, 128, 1, 2);
    double *was = tensor_values(&t);
    struct device *d = b->d;

    must(d->ops->llm.attention_fwd(d, b->dt, t.p, 128, t.p, t.p, t.p, t.p, 256,
                                   t.p, &none, ERR));
    must(d->ops->llm.attention_bwd(d, b->dt, t.p, t.p, t.p, 256, t.p, t.p, 128,
                                   t.p, t.p, t.p, t.p, 256, t.p, &none, ERR));
    same(&t, was, "attention of no tokens writes nothing");
    free(was);
    tensor_drop(&t);
}

void contract_llm_attention_even(struct bed *b)
{
    static const struct layout few[] = {
        {{1}, 1, 1, 64, true},          {{63, 1}, 4, 1, 128, true},
        {{64, -2, 65}, 1, 1, 64, true}, {{9, 50}, 7, 1, 64, true},
        {{129}, 4, 2, 64, true},
    };
    static const struct layout more[] = {
        {{127, 3}, 8, 1, 64, true},   {{257}, 1, 1, 128, true},
        {{65, 130}, 14, 2, 64, true}, {{20, 30, 1, 1, 100}, 5, 1, 128, true},
        {{127}, 8, 1, 128, true},
    };
    static const struct layout mixed = {{3, 7, 20, 1, 80, -2}, 2, 1, 64, true},
                               wide = {{3, 7, 20, 9}, 3, 1, 128, true};
    const bool all = getenv("MGPU_TEST_ALL") != NULL || !b->small;

    attend_nothing(b);
    for (size_t i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        attend_all(b, &few[i]);
    for (size_t i = 0; all && i < sizeof(more) / sizeof(more[0]); i++)
        attend_all(b, &more[i]);
    for (int32_t n = 1; n < 65; n++)
        if (all || n == 16 || n == 31)
            attend_cut(b, n);
    for (int which = 0; which < ATTEND_INPUTS; which++)
        attend_not_finite(b, &mixed, which, NAN);
    attend_not_finite(b, &mixed, 2, INFINITY);
    for (int which = 0; all && which < ATTEND_INPUTS; which++)
        attend_not_finite(b, &wide, which, NAN);
    if (all)
        attend_equal(b);
    attend_windows(b, true);
}
