/* flat.c - memory, addition, bias, pooling, dropout. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

void contract_memory(struct bed *b)
{
    const struct device_ops *ops = b->d->ops;
    unsigned char in[1000], out[1000];
    void *p = NULL, *q = NULL;

    must(ops->alloc(b->d, sizeof(in), &p, ERR));
    must(ops->alloc(b->d, sizeof(in), &q, ERR));
    ok((uintptr_t)p % 256 == 0, "%s: alloc is 256-byte aligned", b->name);
    memset(out, 1, sizeof(out));
    memset(in, 0, sizeof(in));
    must(ops->to_host(b->d, out, p, sizeof(out), ERR));
    ok(memcmp(in, out, sizeof(in)) == 0, "alloc gives zeros");
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (unsigned char)(i * 7 + 1);
    must(ops->to_device(b->d, p, in, sizeof(in), ERR));
    must(ops->copy(b->d, q, p, sizeof(in), ERR));
    must(ops->zero(b->d, p, 10, ERR));
    must(ops->to_host(b->d, out, q, sizeof(out), ERR));
    ok(memcmp(in, out, sizeof(in)) == 0, "to_device, copy, to_host");
    must(ops->to_host(b->d, out, p, sizeof(out), ERR));
    memset(in, 0, 10);
    ok(memcmp(in, out, sizeof(in)) == 0, "zero clears what it was asked to");
    must(ops->sync(b->d, ERR));
    ops->release(b->d, p);
    ops->release(b->d, q);
    ops->release(b->d, NULL);
    void *none = b;
    struct error err = ERROR_INIT;
    ok(ops->alloc(b->d, SIZE_MAX - 10, &none, &err) == -1 &&
           err.code == ERR_NOMEM && none == b,
       "alloc of the address space is ERR_NOMEM (%s)", err.msg);
}

static void add_one(struct bed *b, int64_t n)
{
    struct tensor y = tensor_make(b, n, -2, 2), x = tensor_make(b, n, -2, 2);
    double *want = zeros(n);

    for (int64_t i = 0; i < n; i++)
        want[i] = y.v[i] + x.v[i];
    must(b->d->ops->add(b->d, b->dt, y.p, x.p, n, ERR));
    near(&y, want, "add of %lld", (long long)n);
    free(want);
    tensor_drop(&y);
    tensor_drop(&x);
}

static void bias_one(struct bed *b, int64_t rows, int32_t C)
{
    struct tensor y = tensor_make(b, rows * C, -2, 2);
    struct tensor bias = tensor_make(b, C, -2, 2);
    struct tensor db = tensor_make(b, C, 7, 8);
    double *Y = zeros(rows * C), *DB = zeros(C);

    for (int64_t i = 0; i < rows * C; i++) {
        DB[i % C] += y.v[i];
        Y[i] = y.v[i] + bias.v[i % C];
    }
    must(b->d->ops->bias_bwd(b->d, b->dt, db.p, y.p, rows, C, ERR));
    near(&db, DB, "bias_bwd %lld x %d", (long long)rows, C);
    must(b->d->ops->bias_fwd(b->d, b->dt, y.p, bias.p, rows, C, ERR));
    near(&y, Y, "bias_fwd %lld x %d", (long long)rows, C);
    free(Y);
    free(DB);
    tensor_drop(&y);
    tensor_drop(&bias);
    tensor_drop(&db);
}

static void pool_one(struct bed *b, int32_t N, int32_t HW, int32_t C)
{
    int64_t nx = (int64_t)N * HW * C, ny = (int64_t)N * C;
    struct tensor x = tensor_make(b, nx, -2, 2), y = tensor_make(b, ny, 7, 8);
    struct tensor dx = tensor_make(b, nx, 7, 8), dy = tensor_make(b, ny, -2, 2);
    double *Y = zeros(ny), *DX = zeros(nx);

    for (int64_t i = 0; i < nx; i++) {
        int64_t o = i / C / HW * C + i % C;
        Y[o] += x.v[i] / HW;
        DX[i] = dy.v[o] / HW;
    }
    must(b->d->ops->avgpool_fwd(b->d, b->dt, y.p, x.p, N, HW, C, ERR));
    must(b->d->ops->avgpool_bwd(b->d, b->dt, dx.p, dy.p, N, HW, C, ERR));
    near(&y, Y, "avgpool_fwd [%d,%d,%d]", N, HW, C);
    near(&dx, DX, "avgpool_bwd [%d,%d,%d]", N, HW, C);
    free(Y);
    free(DX);
    tensor_drop(&x);
    tensor_drop(&y);
    tensor_drop(&dx);
    tensor_drop(&dy);
}

void contract_flat(struct bed *b)
{
    add_one(b, 0);
    add_one(b, 1);
    add_one(b, 13);
    add_one(b, 1030);
    bias_one(b, 1, 10);
    bias_one(b, 64, 10);
    bias_one(b, 5, 33);
    pool_one(b, 1, 1, 8);
    pool_one(b, 3, 49, 5);
    pool_one(b, 2, 4, 321);
    if (b->small)
        return;
    add_one(b, 100003);
    bias_one(b, 3000, 96);
    pool_one(b, 64, 1, 1280);
    pool_one(b, 17, 49, 1280);
}

/* Philox4x32-10 from its definition (Salmon et al. 2011), for one element. */
static uint32_t philox_word(uint64_t seed, uint64_t element)
{
    uint32_t x[4] = {(uint32_t)(element / 4), (uint32_t)(element / 4 >> 32), 0,
                     0};
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};

    for (int round = 0; round < 10; round++) {
        uint64_t a = 0xD2511F53ULL * x[0], c = 0xCD9E8D57ULL * x[2];
        uint32_t next[4] = {(uint32_t)(c >> 32) ^ x[1] ^ k[0], (uint32_t)c,
                            (uint32_t)(a >> 32) ^ x[3] ^ k[1], (uint32_t)a};
        memcpy(x, next, sizeof(x));
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return x[element % 4];
}

static void dropout_one(struct bed *b, int64_t n, double p, uint64_t seed,
                        uint64_t offset)
{
    struct tensor x = tensor_make(b, n, 1, 2), y = tensor_make(b, n, 7, 8);
    double *want = zeros(n);
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++) {
        uint32_t w = philox_word(seed, offset + (uint64_t)i);
        bool keep = (double)w / 4294967296.0 >= p;
        kept += keep;
        want[i] = keep ? x.v[i] / (1 - p) : 0;
    }
    const void *key = bed_put(b, &seed, sizeof(seed));
    must(b->d->ops->dropout(b->d, b->dt, y.p, x.p, n, p, key, offset, ERR));
    near(&y, want, "dropout of %lld from %llu, p %g", (long long)n,
         (unsigned long long)offset, p);
    /* Five standard deviations of a binomial. */
    ok(fabs((double)kept - (double)n * (1 - p)) <=
           5 * sqrt((double)n * p * (1 - p)),
       "dropout keeps %lld of %lld", (long long)kept, (long long)n);
    must(b->d->ops->dropout(b->d, b->dt, x.p, x.p, n, p, key, offset, ERR));
    near(&x, want, "dropout in place draws the same mask");
    free(want);
    tensor_drop(&x);
    tensor_drop(&y);
}

void contract_dropout(struct bed *b)
{
    /* The known answer of Random123 for key 0, counter 0. */
    ok(philox_word(0, 0) == 0x6627e8d5 && philox_word(0, 3) == 0x9b00dbd8,
       "the reference generator is Philox4x32-10");
    for (uint64_t offset = 0; offset < 5; offset++)
        dropout_one(b, 11, 0.5, 1, offset);
    dropout_one(b, 1, 0.9, 3, 0);
    /* At the threshold, and one word above it. */
    dropout_one(b, 1, 0x6627e8d5 / 4294967296.0, 0, 0);
    dropout_one(b, 1, 0x6627e8d6 / 4294967296.0, 0, 0);
    dropout_one(b, 3000, 0.2, 0x123456789abcdef0, ((uint64_t)1 << 35) + 2);
    dropout_one(b, 100, 0, 9, 4);
    dropout_one(b, 0, 0.5, 9, 4);
    if (!b->small)
        dropout_one(b, 81920, 0.2, 7, 81920);
}
