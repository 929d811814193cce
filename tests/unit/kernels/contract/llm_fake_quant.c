/* llm_fake_quant.c - what four and eight bits leave of weights and activations,
 * each bit as the formulas say with a rounding behind each operation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static const double least = 1.0 / (1 << 23);

struct fake {
    struct bed *b;
    struct tensor x, y;
    int64_t rows;
    int32_t C; /* of a row, or of a group of weights */
};

static void run_int4(void *arg)
{
    struct fake *k = arg;
    must(k->b->d->ops->llm.round_int4(k->b->d, k->b->dt, k->y.p, k->x.p,
                                      k->rows * k->C, k->C, ERR));
}

static void run_int8(void *arg)
{
    struct fake *k = arg;
    must(k->b->d->ops->llm.round_int8(k->b->d, k->b->dt, k->y.p, k->x.p,
                                      k->rows, k->C, ERR));
}

static double f32(double v)
{
    return rounded(DT_F32, v);
}

/* In the type of the values, by way of fp32; fp64 is taken as fp32. */
static double in(const struct fake *k, double v)
{
    return k->b->dt == DT_F64 ? f32(v) : rounded(k->b->dt, f32(v));
}

static double cut(double v, double low, double high)
{
    return v < low ? low : v > high ? high : v;
}

static double on_grid(double x, double scale, double zero, double low,
                      double high)
{
    const double inverse = f32(1 / scale);
    const double q = cut(rint(f32(f32(x) * inverse)) + zero, low, high);
    return f32((q - zero) * scale);
}

static void want_int4(const struct fake *k, const double *x, double *want)
{
    double most = 0;
    for (int32_t i = 0; i < k->C; i++)
        most = fmax(most, fabs(f32(x[i])));
    const double scale = fmax(in(k, f32(most) / 7.5), least);
    for (int32_t i = 0; i < k->C; i++)
        want[i] = on_grid(x[i], scale, 0, -8, 7);
}

static void want_int8(const struct fake *k, const double *x, double *want)
{
    double lo = 0, hi = 0;
    for (int32_t i = 0; i < k->C; i++) {
        lo = fmin(lo, f32(x[i]));
        hi = fmax(hi, f32(x[i]));
    }
    const double scale = fmax(in(k, in(k, hi - lo) / 255), least);
    const double below = in(k, lo / scale), above = in(k, hi / scale);
    const bool by_low = in(k, in(k, -128 + below) + in(k, 127 + above)) > 0;
    const double zero =
        rint(cut(by_low ? in(k, -128 - below) : in(k, 127 - above), -128, 127));
    for (int32_t i = 0; i < k->C; i++)
        want[i] = on_grid(x[i], scale, zero, -128, 127);
}

/* Rows of one sign, of zeros, of tiny values, and of wide ranges. */
static void fill(struct fake *k)
{
    for (int64_t i = 0; i < k->x.n; i++) {
        const int64_t r = i / k->C;
        const double v = k->x.v[i];
        k->x.v[i] = r % 7 == 1   ? fabs(v)
                    : r % 7 == 2 ? -fabs(v)
                    : r % 7 == 3 ? 0
                    : r % 7 == 4 ? v * 1e-7
                    : r % 7 == 5 ? v * 700
                                 : v;
    }
    tensor_push(&k->x);
}

static void make(struct fake *k, struct bed *b, int64_t rows, int32_t C)
{
    *k = (struct fake){.b = b, .rows = rows, .C = C};
    k->x = tensor_make(b, rows * C, -1, 1);
    k->y = tensor_make(b, rows * C, 7, 8);
    fill(k);
}

static void drop(struct fake *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->y);
}

static void test_one(struct bed *b, bool is_int4, int64_t rows, int32_t C)
{
    const char *what = is_int4 ? "int4, groups" : "int8, rows";
    struct fake k;
    make(&k, b, rows, C);
    double *want = zeros(rows * C);
    for (int64_t r = 0; r < rows; r++)
        (is_int4 ? want_int4 : want_int8)(&k, k.x.v + r * C, want + r * C);
    if (rows == 9)
        same_bits(&(struct call){b, is_int4 ? run_int4 : run_int8, &k}, &k.y,
                  what);
    (is_int4 ? run_int4 : run_int8)(&k);
    same(&k.y, want, "%s %lld of %d", what, (long long)rows, C);
    /* In place. */
    struct fake own = k;
    own.y = k.x;
    (is_int4 ? run_int4 : run_int8)(&own);
    same(&k.x, want, "%s %lld of %d, in place", what, (long long)rows, C);
    free(want);
    drop(&k);
}

/* What is not finite makes its group or row NaN, and no other. */
static void test_nan(struct bed *b, bool is_int4)
{
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    struct fake k;
    for (int i = 0; i < 3; i++) {
        int n = 0, others = 0;
        make(&k, b, 3, 40);
        k.x.v[40 + 3] = bad[i];
        tensor_push(&k.x);
        (is_int4 ? run_int4 : run_int8)(&k);
        tensor_pull(&k.y);
        for (int j = 0; j < 3 * 40; j++)
            *(j / 40 == 1 ? &n : &others) += isnan(k.y.v[j]) ? 1 : 0;
        ok(n == 40 && others == 0, "%s: %g makes its row NaN: %d, %d others",
           is_int4 ? "int4" : "int8", bad[i], n, others);
        drop(&k);
    }
}

static void test_refused(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct fake k;
    make(&k, b, 2, 8);
    refused(ops->round_int4(b->d, b->dt, k.y.p, k.x.p, 15, 8, ERR));
    refused(ops->round_int4(b->d, b->dt, k.y.p, k.x.p, -8, 8, ERR));
    refused(ops->round_int4(b->d, b->dt, k.y.p, k.x.p, 16, 0, ERR));
    refused(ops->round_int4(b->d, DT_N, k.y.p, k.x.p, 16, 8, ERR));
    refused(ops->round_int8(b->d, b->dt, k.y.p, k.x.p, -1, 8, ERR));
    refused(ops->round_int8(b->d, b->dt, k.y.p, k.x.p, 2, 0, ERR));
    refused(ops->round_int8(b->d, DT_N, k.y.p, k.x.p, 2, 8, ERR));
    drop(&k);
}

void contract_llm_fake_quant(struct bed *b)
{
    static const int32_t widths[] = {1, 5, 8, 32, 64, 172, 256};
    for (int is_int4 = 0; is_int4 < 2; is_int4++) {
        test_one(b, is_int4 != 0, 0, 8);
        for (int i = 0; i < 7; i++)
            test_one(b, is_int4 != 0, 9, widths[i]);
        if (!b->small) {
            test_one(b, is_int4 != 0, 3, 4096 + 8);
            test_one(b, is_int4 != 0, 700, 32);
        }
        test_nan(b, is_int4 != 0);
    }
    test_refused(b);
}
