/* conv.c - GEMM, and the stem as im2col and GEMM. The rest is in fused.c. */
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static void gemm_one(struct bed *b, bool ta, bool tb, int32_t m, int32_t n,
                     int32_t k, double alpha, double beta, int32_t pad)
{
    int32_t lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
    struct tensor A = tensor_make(b, (int64_t)(ta ? k : m) * lda, -1, 1);
    struct tensor B = tensor_make(b, (int64_t)(tb ? n : k) * ldb, -1, 1);
    struct tensor C = tensor_make(b, (int64_t)m * ldc, -1, 1);
    double *want = zeros(C.n);

    for (int64_t i = 0; i < C.n; i++)
        want[i] = C.v[i]; /* what lies between the rows stays */
    for (int32_t i = 0; i < m; i++)
        for (int32_t j = 0; j < n; j++) {
            double s = 0;
            for (int32_t l = 0; l < k; l++)
                s += A.v[ta ? l * lda + i : i * lda + l] *
                     B.v[tb ? j * ldb + l : l * ldb + j];
            want[i * ldc + j] = alpha * s + beta * C.v[i * ldc + j];
        }
    must(b->d->ops->gemm(b->d, b->dt, ta, tb, m, n, k, alpha, A.p, lda, B.p,
                         ldb, beta, C.p, ldc, ERR));
    near(&C, want, "gemm %d%d %dx%dx%d ld+%d, %g AB + %g C", ta, tb, m, n, k,
         pad, alpha, beta);
    free(want);
    tensor_drop(&A);
    tensor_drop(&B);
    tensor_drop(&C);
}

void contract_gemm(struct bed *b)
{
    for (int t = 0; t < 4; t++) {
        gemm_one(b, t & 1, t & 2, 7, 5, 11, 1, 0, 0);
        gemm_one(b, t & 1, t & 2, 33, 24, 17, 0.5, 1, 3);
        if (!b->small)
            gemm_one(b, t & 1, t & 2, 130, 96, 144, -2, 0.25, 0);
    }
    gemm_one(b, false, false, 1, 1, 1, 1, 0, 0);
    gemm_one(b, false, false, 4, 3, 0, 1, 2, 1); /* C = beta C */
    gemm_one(b, false, true, 1, 10, 1280, 1, 1, 0);
    if (b->d->ops->tune == NULL)
        return;
    /* A search that adds in place would add as often as it runs. */
    must(b->d->ops->tune(b->d, true, ERR));
    gemm_one(b, false, true, 66, 40, 24, 1, 1, 3);
    gemm_one(b, false, true, 66, 40, 24, 1, 0, 3);
    must(b->d->ops->tune(b->d, false, ERR));
}

static int64_t at4(int64_t a, int64_t i, int64_t I, int64_t j, int64_t J,
                   int64_t c, int64_t C)
{
    return ((a * I + i) * J + j) * C + c;
}

/* The first layer as the model does it, against the definition. */
static void stem_one(struct bed *b, int32_t N, int32_t H, int32_t W, int32_t C,
                     int32_t K, int32_t stride, int32_t ld)
{
    struct conv3 s = {.N = N,
                      .H = H,
                      .W = W,
                      .C = C,
                      .OH = (H - 1) / stride + 1,
                      .OW = (W - 1) / stride + 1,
                      .stride = stride};
    int64_t rows = (int64_t)N * s.OH * s.OW;
    struct tensor x = tensor_make(b, (int64_t)N * H * W * C, -1, 1);
    struct tensor w = tensor_make(b, (int64_t)K * 9 * C, -1, 1);
    struct tensor col = tensor_make(b, rows * ld, 5, 6);
    struct tensor wide = tensor_make(b, (int64_t)K * ld, 5, 6);
    struct tensor y = tensor_make(b, rows * K, 5, 6);
    double *COL = zeros(col.n), *Y = zeros(y.n);

    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < 9 * C; i++) {
            int64_t ih = r / s.OW % s.OH * stride + i / C / 3 - 1;
            int64_t iw = r % s.OW * stride + i / C % 3 - 1;
            if (ih < 0 || ih >= H || iw < 0 || iw >= W)
                continue;
            double v = x.v[at4(r / s.OW / s.OH, ih, H, iw, W, i % C, C)];
            COL[r * ld + i] = v;
            for (int64_t k = 0; k < K; k++)
                Y[r * K + k] += v * w.v[k * 9 * C + i];
        }
    must(b->d->ops->im2col3(b->d, b->dt, col.p, ld, x.p, &s, ERR));
    same(&col, COL, "im2col3 [%d,%d,%d,%d] /%d, ld %d", N, H, W, C, stride, ld);
    must(b->d->ops->pad_rows(b->d, b->dt, wide.p, ld, w.p, 9 * C, K, ERR));
    must(b->d->ops->gemm(b->d, b->dt, false, true, (int32_t)rows, K, ld, 1,
                         col.p, ld, wide.p, ld, 0, y.p, K, ERR));
    near(&y, Y, "the stem to %d channels", K);
    free(COL);
    free(Y);
    tensor_drop(&x);
    tensor_drop(&w);
    tensor_drop(&col);
    tensor_drop(&wide);
    tensor_drop(&y);
}

/* Columns are added, and taken away again. */
static void pad_one(struct bed *b, int64_t rows, int32_t from, int32_t to)
{
    struct tensor x = tensor_make(b, rows * from, -1, 1);
    struct tensor y = tensor_make(b, rows * to, 5, 6);
    struct tensor back = tensor_make(b, rows * from, 5, 6);
    double *want = zeros(y.n);

    for (int64_t i = 0; i < x.n; i++)
        want[i / from * to + i % from] = x.v[i];
    must(b->d->ops->pad_rows(b->d, b->dt, y.p, to, x.p, from, rows, ERR));
    same(&y, want, "pad_rows %lld x %d to %d", (long long)rows, from, to);
    must(b->d->ops->pad_rows(b->d, b->dt, back.p, from, y.p, to, rows, ERR));
    same(&back, x.v, "pad_rows back to %d", from);
    free(want);
    tensor_drop(&x);
    tensor_drop(&y);
    tensor_drop(&back);
}

void contract_conv(struct bed *b)
{
    for (int32_t stride = 1; stride <= 2; stride++) {
        stem_one(b, 2, 7, 6, 3, 4, stride, 27);
        stem_one(b, 2, 7, 6, 3, 4, stride, 32);
        stem_one(b, 1, 6, 7, 3, 4, stride, 29);
        stem_one(b, 2, 9, 5, 1, 4, stride, 16);
        stem_one(b, 1, 1, 1, 1, 2, stride, 9);
        stem_one(b, 1, 1, 1, 3, 2, stride, 32);
        if (b->small)
            continue;
        stem_one(b, 3, 32, 32, 3, 32, stride, 27);
    }
    pad_one(b, 32, 27, 32);
    pad_one(b, 1, 1, 300);
}
