/* bed.c - see bed.h. */
#include "tests/unit/kernels/contract/bed.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"

/* splitmix64 (Steele, Lea, Flood 2014): a stream that is the same wherever
 * the tests run. */
double bed_uniform(struct bed *b, double lo, double hi)
{
    uint64_t z = b->seed += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    return lo + (hi - lo) * (double)(z >> 11) / 9007199254740992.0;
}

double rounded(enum dtype dt, double v)
{
    double bits = 0;

    dtype_set(dt, &bits, 0, v);
    return dtype_get(dt, &bits, 0);
}

void tensor_push(struct tensor *t)
{
    size_t bytes = (size_t)t->n * dtype_bytes(t->dt);
    void *raw = malloc(bytes + 1);

    for (int64_t i = 0; i < t->n; i++) {
        dtype_set(t->dt, raw, i, t->v[i]);
        t->v[i] = dtype_get(t->dt, raw, i);
    }
    must(t->bed->d->ops->to_device(t->bed->d, t->p, raw, bytes, ERR));
    free(raw);
}

void tensor_pull(struct tensor *t)
{
    size_t bytes = (size_t)t->n * dtype_bytes(t->dt);
    void *raw = malloc(bytes + 1);

    must(t->bed->d->ops->to_host(t->bed->d, raw, t->p, bytes, ERR));
    for (int64_t i = 0; i < t->n; i++)
        t->v[i] = dtype_get(t->dt, raw, i);
    free(raw);
}

static struct tensor blank(struct bed *b, int64_t n, enum dtype dt)
{
    struct tensor t = {.bed = b, .n = n, .dt = dt, .v = zeros(n)};

    must(b->d->ops->alloc(b->d, (size_t)n * dtype_bytes(dt), &t.p, ERR));
    return t;
}

static struct tensor filled(struct bed *b, int64_t n, enum dtype dt, double lo,
                            double hi)
{
    struct tensor t = blank(b, n, dt);

    for (int64_t i = 0; i < n; i++)
        t.v[i] = bed_uniform(b, lo, hi);
    tensor_push(&t);
    return t;
}

struct tensor tensor_make(struct bed *b, int64_t n, double lo, double hi)
{
    return filled(b, n, b->dt, lo, hi);
}

struct tensor tensor_acc(struct bed *b, int64_t n, double lo, double hi)
{
    return filled(b, n, dtype_acc(b->dt), lo, hi);
}

struct tensor tensor_ints(struct bed *b, int64_t n, int lo, int hi)
{
    struct tensor t = blank(b, n, b->dt);

    for (int64_t i = 0; i < n; i++)
        t.v[i] = floor(bed_uniform(b, lo, hi + 1));
    tensor_push(&t);
    return t;
}

void tensor_drop(struct tensor *t)
{
    t->bed->d->ops->release(t->bed->d, t->p);
    free(t->v);
    t->p = NULL;
    t->v = NULL;
}

void *bed_put(struct bed *b, const void *v, size_t bytes)
{
    must(b->d->ops->put(b->d, b->scalars, v, bytes, ERR));
    return b->scalars;
}

int32_t *bed_indices(struct bed *b, const int32_t *v, int64_t n)
{
    size_t bytes = (size_t)n * sizeof(*v);
    void *p = NULL;

    must(b->d->ops->alloc(b->d, bytes, &p, ERR));
    must(b->d->ops->to_device(b->d, p, v, bytes, ERR));
    return p;
}

double *zeros(int64_t n)
{
    double *p = calloc((size_t)n + 1, sizeof(*p));

    if (!p)
        abort();
    return p;
}

/* The largest difference, and where; NaN counts as infinite. */
static double worst_of(const struct tensor *t, const double *want, double tol,
                       double *ret_scale, int64_t *ret_at)
{
    double worst = 0;

    *ret_scale = 0;
    *ret_at = 0;
    for (int64_t i = 0; i < t->n; i++) {
        double w = tol > 0 ? want[i] : rounded(t->dt, want[i]);
        double e = t->v[i] == w ? 0 : fabs(t->v[i] - w);
        *ret_scale = fmax(*ret_scale, fabs(want[i]));
        if (isnan(e))
            e = INFINITY;
        if (e > worst) {
            worst = e;
            *ret_at = i;
        }
    }
    return worst;
}

static void __attribute__((format(printf, 4, 0)))
compare(struct tensor *t, const double *want, double tol, const char *fmt,
        va_list ap)
{
    char what[160];
    double scale;
    int64_t at;

    (void)vsnprintf(what, sizeof(what), fmt, ap);
    tensor_pull(t);
    double worst = worst_of(t, want, tol, &scale, &at);
    if (!ok(worst <= tol * scale, "%s %s: %s", t->bed->name,
            dtype_name(t->bed->dt), what))
        tap_diag("worst %g of %g, at %lld: got %.17g, want %.17g", worst, scale,
                 (long long)at, t->v[at], want[at]);
}

void near(struct tensor *t, const double *want, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    compare(t, want, t->bed->tol, fmt, ap);
    va_end(ap);
}

void same(struct tensor *t, const double *want, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    compare(t, want, 0, fmt, ap);
    va_end(ap);
}

void must_failed(const char *file, int line, const char *call, const char *why)
{
    tap_ok(false, file, line, "%s", call);
    tap_diag("%s", why);
}

struct bed bed_make(struct device *d, const char *name, enum dtype dt,
                    bool small)
{
    /* A sum of n terms is off by about sqrt(n) roundings, and the values
     * here have up to some thousands: 100 roundings of the type. 16-bit
     * types are summed in fp32: what counts are the few values on the way
     * that are kept in the type, some of them larger than the result. */
    static const double tol[DT_N] = {
        [DT_F64] = 1e-12, [DT_F32] = 2e-5, [DT_F16] = 2e-3, [DT_BF16] = 1.6e-2};

    struct bed b = {.d = d,
                    .name = name,
                    .dt = dt,
                    .tol = tol[dt],
                    .seed = 1,
                    .small = small};

    must(d->ops->alloc(d, PUT_BYTES, &b.scalars, ERR));
    return b;
}

void bed_drop(struct bed *b)
{
    b->d->ops->release(b->d, b->scalars);
}

void contract_device(struct device *d, const char *name, bool small)
{
    for (int dt = 0; dt < DT_N; dt++) {
        struct bed b = bed_make(d, name, (enum dtype)dt, small);
        contract_memory(&b);
        contract_replay(&b);
        contract_gemm(&b);
        contract_conv(&b);
        contract_norm(&b);
        contract_fused(&b);
        contract_flat(&b);
        contract_dropout(&b);
        contract_loss(&b);
        contract_image(&b);
        contract_optim(&b);
        contract_exact(&b);
        if (dt == DT_F64 && !small)
            contract_gradients(&b);
        contract_llm_norm(&b);
        contract_llm_head_norm(&b);
        contract_llm_rope(&b);
        contract_llm_rows(&b);
        contract_llm_pairs(&b);
        contract_llm_swiglu(&b);
        contract_llm_nf4(&b);
        contract_llm_fake_quant(&b);
        contract_refusals(&b);
        contract_cast(&b);
        contract_llm_attention(&b);
        if (dtype_bytes(b.dt) == 2)
            contract_llm_attention_even(&b);
        contract_llm_attention_step(&b);
        bed_drop(&b);
    }
}
