/* exact.c - sums of small integers: exact in any order, so compared with ==.
 *
 * A reduction that loses, repeats or misplaces one row is off by at least
 * one here, where a tolerance could hide it.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void exact_bias(struct bed *b, int64_t rows, int32_t C)
{
    struct tensor dy = tensor_ints(b, rows * C, -8, 8);
    struct tensor db = tensor_make(b, C, 7, 8);
    double *want = zeros(C);

    for (int64_t i = 0; i < rows * C; i++)
        want[i % C] += dy.v[i];
    must(b->d->ops->bias_bwd(b->d, b->dt, db.p, dy.p, rows, C, ERR));
    same(&db, want, "exact bias_bwd %lld x %d", (long long)rows, C);
    free(want);
    tensor_drop(&dy);
    tensor_drop(&db);
}

/* mean 0, rstd 1, gamma 1: hat is x, and dgamma is the sum of dy * x. */
static void exact_norm(struct bed *b, int64_t rows, int32_t C)
{
    struct tensor dy = tensor_ints(b, rows * C, -8, 8);
    struct tensor x = tensor_ints(b, rows * C, -8, 8);
    struct tensor zero = tensor_acc(b, C, 0, 0), one = tensor_acc(b, C, 1, 1);
    struct tensor gamma = tensor_make(b, C, 1, 1);
    struct tensor beta = tensor_make(b, C, 0, 0);
    struct tensor dgamma = tensor_make(b, C, 7, 8);
    struct tensor dbeta = tensor_make(b, C, 7, 8);
    struct tensor sums = tensor_acc(b, (int64_t)2 * C, 7, 8);
    const struct norm n = {zero.p, one.p, gamma.p, beta.p, 6};
    const struct norm_grad out = {sums.p, dgamma.p, dbeta.p};
    double *DG = zeros(C), *DB = zeros(C);

    for (int64_t i = 0; i < rows * C; i++) {
        bool open = x.v[i] > 0 && x.v[i] < 6;
        DG[i % C] += open ? dy.v[i] * x.v[i] : 0;
        DB[i % C] += open ? dy.v[i] : 0;
    }
    must(b->d->ops->norm_grads(b->d, b->dt, dy.p, &out, x.p, &n, rows, C, ERR));
    same(&dgamma, DG, "exact norm_grads dgamma %lld x %d", (long long)rows, C);
    same(&dbeta, DB, "exact norm_grads dbeta %lld x %d", (long long)rows, C);
    free(DG);
    free(DB);
    tensor_drop(&dy);
    tensor_drop(&x);
    tensor_drop(&zero);
    tensor_drop(&one);
    tensor_drop(&gamma);
    tensor_drop(&beta);
    tensor_drop(&dgamma);
    tensor_drop(&dbeta);
    tensor_drop(&sums);
}

/* A norm that changes nothing and whose gradient has no sums: dz is dy. */
static void exact_filter(struct bed *b, int32_t N, int32_t S, int32_t C)
{
    struct conv3 s = {N, S, S, C, S, S, 1};
    int64_t n = (int64_t)N * S * S * C;
    struct tensor dy = tensor_ints(b, n, -4, 4), x = tensor_ints(b, n, -4, 4);
    struct tensor dw = tensor_make(b, 9 * C, 7, 8);
    struct tensor filter = tensor_make(b, 9 * C, 0, 0);
    struct tensor dx = tensor_make(b, n, 7, 8);
    struct tensor zero = tensor_acc(b, 2 * C, 0, 0);
    struct tensor one = tensor_acc(b, C, 1, 1), gamma = tensor_make(b, C, 1, 1);
    struct tensor beta = tensor_make(b, C, 0, 0);
    const struct norm norm = {zero.p, one.p, gamma.p, beta.p, 0};
    double *want = zeros(9 * C);

    for (int64_t i = 0; i < n * 9; i++) {
        int64_t k = i / n, at = i % n, c = at % C;
        int64_t h = at / C / S % S + k / 3 - 1, w = at / C % S + k % 3 - 1;
        if (h < 0 || h >= S || w < 0 || w >= S)
            continue;
        int64_t in = at + ((k / 3 - 1) * S + (k % 3 - 1)) * C;
        want[k * C + c] += dy.v[at] * x.v[in];
    }
    must(b->d->ops->dw_bwd(b->d, b->dt, dx.p, dw.p, NULL, dy.p, x.p, &norm,
                           zero.p, x.p, NULL, filter.p, &s, ERR));
    same(&dw, want, "exact dw_bwd dw [%d,%d,%d,%d]", N, S, S, C);
    free(want);
    tensor_drop(&dy);
    tensor_drop(&x);
    tensor_drop(&dw);
    tensor_drop(&filter);
    tensor_drop(&dx);
    tensor_drop(&zero);
    tensor_drop(&one);
    tensor_drop(&gamma);
    tensor_drop(&beta);
}

/* 2^k rows of integers: the mean is exact as well. */
static void exact_mean(struct bed *b, int64_t rows, int32_t C)
{
    struct tensor x = tensor_ints(b, rows * C, -8, 8);
    struct tensor y = tensor_make(b, rows * C, 0, 0);
    struct tensor w = tensor_make(b, (int64_t)9 * C, 0, 0);
    struct tensor mean = tensor_acc(b, C, 7, 8), rstd = tensor_acc(b, C, 7, 8);
    struct tensor rm = tensor_acc(b, C, 0, 0), rv = tensor_acc(b, C, 0, 0);
    const struct norm_stats stats = {mean.p, rstd.p, rm.p, rv.p, 1e-3, 1};
    const struct conv3 s = {1, (int32_t)rows, 1, C, (int32_t)rows, 1, 1};
    double *want = zeros(C);

    for (int64_t i = 0; i < rows * C; i++)
        want[i % C] += x.v[i] / (double)rows;
    for (int32_t c = 0; c < C; c++)
        w.v[4 * C + c] = 1;
    tensor_push(&w);
    must(b->d->ops->dw_fwd(b->d, b->dt, y.p, &stats, x.p, NULL, w.p, &s, ERR));
    same(&mean, want, "exact mean %lld x %d", (long long)rows, C);
    same(&rm, want, "exact running mean with momentum 1");
    free(want);
    tensor_drop(&x);
    tensor_drop(&y);
    tensor_drop(&w);
    tensor_drop(&mean);
    tensor_drop(&rstd);
    tensor_drop(&rm);
    tensor_drop(&rv);
}

void contract_exact(struct bed *b)
{
    static const struct {
        int64_t rows;
        int32_t C;
    } shapes[] = {{1, 1},     {3, 5},   {256, 4},  {129, 3},   {257, 7},
                  {1000, 12}, {65, 33}, {4, 1024}, {4096, 24}, {3000, 97}};
    size_t n = sizeof(shapes) / sizeof(shapes[0]) - (b->small ? 2 : 0);

    for (size_t i = 0; i < n; i++) {
        exact_bias(b, shapes[i].rows, shapes[i].C);
        exact_norm(b, shapes[i].rows, shapes[i].C);
    }
    exact_mean(b, 2, 3);
    exact_mean(b, 64, 16);
    exact_mean(b, 512, 40);
    exact_filter(b, 1, 3, 2);
    exact_filter(b, 5, 6, 8);
    if (!b->small)
        exact_filter(b, 40, 16, 24);
}
