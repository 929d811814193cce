/* llm_nf4.c - weights in four bits: codes, scalers, factors, mean, and what
 * they stand for, each bit as the formulas say with a rounding to the type of
 * the weights behind each operation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static const double book[16] = {
    -1,     -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0,
    0.0796, 0.1609,  0.2461,  0.3379,  0.4407,  0.5626,  0.7230,  1};

struct packed {
    struct bed *b;
    enum dtype q; /* Q */
    int64_t n, blocks, groups;
    struct tensor w, back;
    void *memory;
    struct nf4 at;
};

static void *part(char *base, size_t *at, size_t bytes)
{
    void *p = base + *at;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

static void pack_make(struct packed *k, struct bed *b, int64_t n, bool twice)
{
    *k = (struct packed){.b = b,
                         .q = nf4_dtype(b->dt),
                         .n = n,
                         .blocks = n / NF4_BLOCK,
                         .groups = (n / NF4_BLOCK + NF4_GROUP - 1) / NF4_GROUP};
    const size_t size = dtype_bytes(k->q);
    size_t at = 0;
    k->w = tensor_make(b, n, -1, 1);
    k->back = tensor_make(b, n, 7, 8);
    /* Of few bits, so that a sum of scalers is exact in any order. */
    for (int64_t i = 0; i < n; i++)
        k->w.v[i] =
            rint(k->w.v[i] * (double)(1 + i / NF4_BLOCK % 5) * 256) / 4096;
    tensor_push(&k->w);
    must(b->d->ops->alloc(b->d, (size_t)n * 2 + 4096, &k->memory, ERR));
    k->at.n = n;
    k->at.codes = part(k->memory, &at, (size_t)n / 2);
    if (twice) {
        k->at.scalers = part(k->memory, &at, (size_t)k->blocks);
        k->at.factors = part(k->memory, &at, (size_t)k->groups * size);
        k->at.mean = part(k->memory, &at, size);
    } else {
        k->at.absmax = part(k->memory, &at, (size_t)k->blocks * size);
    }
}

static void pack_drop(struct packed *k)
{
    k->b->d->ops->release(k->b->d, k->memory);
    tensor_drop(&k->w);
    tensor_drop(&k->back);
}

static void pack_run(void *arg)
{
    struct packed *k = arg;
    const struct llm_ops *ops = &k->b->d->ops->llm;
    must(ops->nf4_quantise(k->b->d, k->b->dt, &k->at, k->w.p, ERR));
    must(ops->nf4_expand(k->b->d, k->b->dt, k->back.p, &k->at, ERR));
}

static double in(const struct packed *k, double v)
{
    return rounded(k->q, v);
}

/* ---- what is expected ---------------------------------------------------- */

static void find_scales(const struct packed *k, double *absmax, double *scale,
                        int8_t *int8, double *factor, double *ret_mean)
{
    double sum = 0;
    for (int64_t i = 0; i < k->blocks; i++) {
        double most = 0;
        for (int j = 0; j < NF4_BLOCK; j++)
            most = fmax(most, fabs(rounded(DT_F32, k->w.v[i * NF4_BLOCK + j])));
        absmax[i] = scale[i] = in(k, most);
        sum += absmax[i];
    }
    if (k->at.scalers == NULL)
        return;
    const double mean =
        in(k, rounded(DT_F32, rounded(DT_F32, sum) / (double)k->blocks));
    *ret_mean = mean;
    for (int64_t g = 0; g < k->groups; g++) {
        const int64_t lo = g * NF4_GROUP;
        const int64_t hi =
            lo + NF4_GROUP < k->blocks ? lo + NF4_GROUP : k->blocks;
        double most = 0;
        for (int64_t i = lo; i < hi; i++)
            most = fmax(most, fabs(in(k, absmax[i] - mean)));
        factor[g] = in(k, 128 / most);
        for (int64_t i = lo; i < hi; i++) {
            double v = rint(in(k, in(k, absmax[i] - mean) * factor[g]));
            v = isnan(v) ? 0 : v;
            int8[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
            scale[i] = in(k, in(k, int8[i] / factor[g]) + mean);
        }
    }
}

static int nearest(const struct packed *k, double v)
{
    int best = 0;
    for (int c = 1; c < 16; c++)
        if (fabs(in(k, v - in(k, book[c]))) <
            fabs(in(k, v - in(k, book[best]))))
            best = c;
    return best;
}

static int64_t wrong_bytes(const struct packed *k, const void *at,
                           const void *want, int64_t n)
{
    char *got = malloc((size_t)n + 1);
    int64_t bad = 0;
    must(k->b->d->ops->to_host(k->b->d, got, at, (size_t)n, ERR));
    for (int64_t i = 0; i < n; i++)
        bad += got[i] != ((const char *)want)[i];
    free(got);
    return bad;
}

static int64_t wrong_values(const struct packed *k, const void *at,
                            const double *want, int64_t n)
{
    const size_t bytes = (size_t)n * dtype_bytes(k->q);
    char *got = malloc(bytes + 1);
    int64_t bad = 0;
    must(k->b->d->ops->to_host(k->b->d, got, at, bytes, ERR));
    for (int64_t i = 0; i < n; i++)
        bad += dtype_get(k->q, got, i) != want[i];
    free(got);
    return bad;
}

static void pack_one(struct bed *b, int64_t n, bool twice)
{
    struct packed k;
    double mean = 0;
    pack_make(&k, b, n, twice);
    double *absmax = zeros(k.blocks), *scale = zeros(k.blocks);
    double *factor = zeros(k.groups), *want = zeros(n);
    int8_t *int8 = calloc((size_t)k.blocks + 1, 1);
    uint8_t *codes = calloc((size_t)n / 2 + 1, 1);
    if (k.blocks > 2) /* zeros, which nothing is divided by */
        memset(k.w.v + NF4_BLOCK, 0, NF4_BLOCK * sizeof(double));
    tensor_push(&k.w);
    find_scales(&k, absmax, scale, int8, factor, &mean);
    for (int64_t i = 0; i < n; i++) {
        const double a = absmax[i / NF4_BLOCK];
        const int c =
            a > 0 ? nearest(&k, in(&k, rounded(DT_F32, k.w.v[i]) / a)) : 7;
        codes[i / 2] = (uint8_t)(codes[i / 2] | c << (i % 2 ? 0 : 4));
        want[i] = in(&k, in(&k, book[c]) * scale[i / NF4_BLOCK]);
    }
    pack_run(&k);
    int64_t bad = wrong_bytes(&k, k.at.codes, codes, n / 2);
    ok(bad == 0, "nf4 of %lld values%s: %lld wrong bytes of codes",
       (long long)n, twice ? "" : ", single", (long long)bad);
    bad = twice ? wrong_bytes(&k, k.at.scalers, int8, k.blocks) +
                      wrong_values(&k, k.at.factors, factor, k.groups) +
                      wrong_values(&k, k.at.mean, &mean, k.blocks > 0)
                : wrong_values(&k, k.at.absmax, absmax, k.blocks);
    ok(bad == 0, "%lld wrong scalers, factors and means", (long long)bad);
    same(&k.back, want, "and what they stand for");
    free(absmax);
    free(scale);
    free(factor);
    free(want);
    free(int8);
    free(codes);
    pack_drop(&k);
}

/* A NaN is not hidden. */
static void pack_nan(struct bed *b)
{
    struct packed k;
    int n = 0;
    for (int twice = 0; twice < 2; twice++) {
        pack_make(&k, b, 4 * NF4_BLOCK, twice);
        k.w.v[NF4_BLOCK + 3] = NAN;
        tensor_push(&k.w);
        pack_run(&k);
        tensor_pull(&k.back);
        n = 0;
        for (int i = 0; i < NF4_BLOCK; i++)
            n += isnan(k.back.v[NF4_BLOCK + i]) ? 1 : 0;
        ok(n == NF4_BLOCK, "a NaN makes its block NaN%s",
           twice ? "" : ", single");
        pack_drop(&k);
    }
}

/* From and to addresses that fit no vector. */
static void pack_odd(struct bed *b)
{
    const struct device_ops *ops = b->d->ops;
    const int64_t n = 9 * NF4_BLOCK;
    const size_t size = dtype_bytes(b->dt);
    struct packed k;
    pack_make(&k, b, n, true);
    pack_run(&k);
    tensor_pull(&k.back);
    struct tensor odd = tensor_make(b, n + 1, 7, 8);
    void *codes = NULL;
    must(ops->alloc(b->d, (size_t)n / 2 + 1, &codes, ERR));
    for (int i = 0; i < 4; i++) {
        struct nf4 at = k.at;
        at.codes = (uint8_t *)codes + i % 2;
        must(ops->copy(b->d, at.codes, k.at.codes, (size_t)n / 2, ERR));
        must(ops->llm.nf4_expand(
            b->d, b->dt, (char *)odd.p + (size_t)(i / 2) * size, &at, ERR));
        tensor_pull(&odd);
        int64_t bad = 0;
        for (int64_t j = 0; j < n; j++)
            bad += odd.v[j + i / 2] != k.back.v[j];
        ok(bad == 0, "codes %d byte on, values %d on: %lld are wrong", i % 2,
           i / 2, (long long)bad);
    }
    ops->release(b->d, codes);
    tensor_drop(&odd);
    pack_drop(&k);
}

static void pack_rest(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct packed k;
    pack_make(&k, b, 5 * NF4_BLOCK, true);
    same_bits(&(struct call){b, pack_run, &k}, &k.back, "nf4");
    k.at.n = 63;
    refused(ops->nf4_quantise(b->d, b->dt, &k.at, k.w.p, ERR));
    refused(ops->nf4_expand(b->d, b->dt, k.back.p, &k.at, ERR));
    k.at.n = -NF4_BLOCK;
    refused(ops->nf4_quantise(b->d, b->dt, &k.at, k.w.p, ERR));
    k.at.n = NF4_BLOCK;
    refused(ops->nf4_quantise(b->d, DT_N, &k.at, k.w.p, ERR));
    refused(ops->nf4_expand(b->d, DT_N, k.back.p, &k.at, ERR));
    pack_drop(&k);
}

void contract_llm_nf4(struct bed *b)
{
    for (int twice = 0; twice < 2; twice++) {
        pack_one(b, 0, twice);
        pack_one(b, NF4_BLOCK, twice);
        pack_one(b, 9 * NF4_BLOCK, twice);
        if (!b->small)
            pack_one(b, (2 * NF4_GROUP + 44) * NF4_BLOCK, twice);
    }
    pack_nan(b);
    pack_odd(b);
    pack_rest(b);
}
