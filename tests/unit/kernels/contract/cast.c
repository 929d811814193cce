/* cast.c - from one type to another: every 16-bit pattern, rounding to the
 * nearest with ties to even, subnormals, infinities and NaN.
 *
 * The reference is the definition of the formats, in double, where scaling
 * by a power of two and rounding to an integer are exact.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

enum { PATTERNS = 65536 };

/* Digits of the fraction, the exponent of the smallest normal number, and of
 * the first power of two that there is not. */
struct format {
    enum dtype dt;
    int digits, least, end;
};
static const struct format formats[] = {{DT_F16, 10, -14, 16},
                                        {DT_BF16, 7, -126, 128}};

static double pattern_value(const struct format *f, uint32_t h)
{
    int e = (int)(h >> f->digits & ((1u << (15 - f->digits)) - 1));
    double m = (double)(h & ((1u << f->digits) - 1)), v;

    if (e == (1 << (15 - f->digits)) - 1)
        v = m > 0 ? NAN : INFINITY;
    else if (e == 0)
        v = ldexp(m, f->least - f->digits);
    else
        v = ldexp(m + (double)(1u << f->digits), f->least + e - 1 - f->digits);
    return h & 0x8000u ? -v : v;
}

/* v in this format; what lies between two values goes to the nearest, a tie
 * to the one with an even fraction. */
static double nearest(const struct format *f, double v)
{
    int e = 0;

    if (v == 0 || !isfinite(v))
        return v;
    (void)frexp(v, &e); /* |v| in [2^(e-1), 2^e) */
    int step = (e - 1 > f->least ? e - 1 : f->least) - f->digits;
    double r = ldexp(nearbyint(ldexp(v, -step)), step);
    return fabs(r) >= ldexp(1, f->end) ? copysign(INFINITY, v) : r;
}

static bool agree(double a, double b)
{
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* Casts n doubles to f's type, through `via`, and judges each. */
static int64_t wrong_narrow(struct bed *b, const struct format *f,
                            enum dtype via, const double *v, int64_t n)
{
    const struct device_ops *ops = b->d->ops;
    void *x = NULL, *y = NULL;
    unsigned char *src = malloc((size_t)n * 8), *dst = malloc((size_t)n * 2);
    int64_t wrong = 0;

    for (int64_t i = 0; i < n; i++)
        dtype_set(via, src, i, v[i]);
    must(ops->alloc(b->d, (size_t)n * 8, &x, ERR));
    must(ops->alloc(b->d, (size_t)n * 2, &y, ERR));
    must(ops->to_device(b->d, x, src, (size_t)n * dtype_bytes(via), ERR));
    must(ops->cast(b->d, f->dt, y, via, x, n, ERR));
    must(ops->to_host(b->d, dst, y, (size_t)n * 2, ERR));
    for (int64_t i = 0; i < n; i++) {
        double in = dtype_get(via, src, i), out = dtype_get(f->dt, dst, i);
        if (agree(out, nearest(f, in)) && agree(out, rounded(f->dt, in)))
            continue;
        if (wrong++ == 0)
            tap_diag("%a: got %a, want %a", in, out, nearest(f, in));
    }
    ops->release(b->d, x);
    ops->release(b->d, y);
    free(src);
    free(dst);
    return wrong;
}

static void test_patterns(struct bed *b, const struct format *f)
{
    static uint16_t in[PATTERNS];
    const struct device_ops *ops = b->d->ops;
    struct tensor wide = tensor_make(b, PATTERNS, 0, 0);
    void *x = NULL;
    int64_t wrong = 0, here = 0;

    for (uint32_t i = 0; i < PATTERNS; i++)
        in[i] = (uint16_t)i;
    must(ops->alloc(b->d, sizeof(in), &x, ERR));
    must(ops->to_device(b->d, x, in, sizeof(in), ERR));
    must(ops->cast(b->d, b->dt, wide.p, f->dt, x, PATTERNS, ERR));
    tensor_pull(&wide);
    for (int64_t i = 0; i < PATTERNS; i++) {
        double want = pattern_value(f, (uint32_t)i);
        wrong += !agree(wide.v[i], rounded(b->dt, want));
        here += !agree(dtype_get(f->dt, in, i), want);
    }
    ok(wrong == 0, "%s: all patterns of %s as %s", b->name, dtype_name(f->dt),
       dtype_name(b->dt));
    ok(here == 0, "... and by dtype_get()");
    ops->release(b->d, x);
    tensor_drop(&wide);
}

/* Every value, what lies a little to each side of it, the middle to the next
 * one and a little to each side of that. */
static void test_ties(struct bed *b, const struct format *f, enum dtype via)
{
    enum { EACH = 6 };
    double *v = zeros((int64_t)PATTERNS * EACH);
    int64_t n = 0;

    for (uint32_t i = 0; i < PATTERNS; i++) {
        double at = pattern_value(f, i), next = pattern_value(f, i + 1);
        if (isnan(at))
            continue;
        if (isinf(next) && isfinite(at)) /* a step past the largest */
            next = copysign(ldexp(1, f->end), at);
        double mid = isfinite(next) && isfinite(at) ? (at + next) / 2 : at;
        double by = via == DT_F64 ? 0x1p-50 : 0x1p-22;
        v[n++] = at;
        v[n++] = at * (1 + by);
        v[n++] = at * (1 - by);
        v[n++] = mid;
        v[n++] = mid * (1 + by);
        v[n++] = mid * (1 - by);
    }
    ok(wrong_narrow(b, f, via, v, n) == 0, "%s: %s to %s at and near ties",
       b->name, dtype_name(via), dtype_name(f->dt));
    free(v);
}

/* Random bits: numbers of all sizes, NaN, infinities, subnormals. */
static void test_random(struct bed *b, const struct format *f)
{
    const int64_t n = b->small ? 20001 : 400003;
    double *v = zeros(n);

    for (int64_t i = 0; i < n; i++) {
        float x;
        uint32_t u = (uint32_t)bed_uniform(b, 0, 4294967296.0);
        memcpy(&x, &u, sizeof(x));
        v[i] = (double)x;
    }
    ok(wrong_narrow(b, f, DT_F32, v, n) == 0, "%s: random floats to %s",
       b->name, dtype_name(f->dt));
    free(v);
}

/* A flat array of every length near a vector's, at every alignment. */
static void test_lengths(struct bed *b, enum dtype from)
{
    enum { MOST = 67, GUARD = 7 };
    struct tensor x = tensor_make(b, MOST + 1, -2, 2);
    struct tensor y = tensor_make(b, MOST + 1, GUARD, GUARD);
    struct tensor in = x;
    int64_t wrong = 0;

    in.dt = from;
    must(b->d->ops->alloc(b->d, (MOST + 1) * 8, &in.p, ERR));
    tensor_push(&in);
    for (int64_t n = 0; n <= MOST; n++) {
        int64_t at = n % 2;
        for (int64_t i = 0; i <= MOST; i++)
            y.v[i] = GUARD;
        tensor_push(&y);
        must(b->d->ops->cast(b->d, b->dt,
                             (char *)y.p + (size_t)at * dtype_bytes(b->dt),
                             from, in.p, n, ERR));
        tensor_pull(&y);
        for (int64_t i = 0; i <= MOST; i++) {
            bool mine = i >= at && i < at + n;
            wrong +=
                y.v[i] != (mine ? rounded(b->dt, in.v[i - at]) : (double)GUARD);
        }
    }
    ok(wrong == 0, "%s: %s to %s, lengths 0 to %d, and nothing beside", b->name,
       dtype_name(from), dtype_name(b->dt), MOST);
    b->d->ops->release(b->d, in.p);
    tensor_drop(&x);
    tensor_drop(&y);
}

void contract_cast(struct bed *b)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        test_patterns(b, &formats[i]);
        if (b->dt != formats[i].dt)
            continue;
        test_ties(b, &formats[i], DT_F32);
        test_ties(b, &formats[i], DT_F64);
        test_random(b, &formats[i]);
    }
    for (int from = 0; from < DT_N; from++)
        test_lengths(b, (enum dtype)from);
}
