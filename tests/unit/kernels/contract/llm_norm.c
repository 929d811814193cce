/* llm_norm.c - RMSNorm: values, gradients, what may lie in the same place. */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

struct rms {
    struct bed *b;
    int64_t rows;
    int32_t C;
    double eps;
    struct bed acc; /* for rstd, which is judged by the accumulator's type */
    struct tensor x, delta, w, y, rstd, h, dy, extra, dx, dw, again;
};

static void rms_make(struct rms *k, struct bed *b, int64_t rows, int32_t C,
                     double range, double eps)
{
    int64_t n = rows * C;

    *k = (struct rms){.b = b, .rows = rows, .C = C, .eps = eps, .acc = *b};
    k->acc.tol = dtype_acc(b->dt) == DT_F64 ? 1e-12 : 2e-5;
    k->x = tensor_make(b, n, -range, range);
    k->delta = tensor_make(b, n, -range, range);
    k->w = tensor_make(b, C, -1, 2);
    k->y = tensor_make(b, n, 7, 8);
    k->rstd = tensor_acc(&k->acc, rows, 7, 8);
    k->h = tensor_make(b, n, 7, 8);
    k->dy = tensor_make(b, n, -1, 1);
    k->extra = tensor_make(b, n, -1, 1);
    k->dx = tensor_make(b, n, 7, 8);
    k->dw = tensor_make(b, C, 7, 8);
    k->again = tensor_make(b, n, 7, 8);
}

static void rms_drop(struct rms *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->delta);
    tensor_drop(&k->w);
    tensor_drop(&k->y);
    tensor_drop(&k->rstd);
    tensor_drop(&k->h);
    tensor_drop(&k->dy);
    tensor_drop(&k->extra);
    tensor_drop(&k->dx);
    tensor_drop(&k->dw);
    tensor_drop(&k->again);
}

static void forward(struct rms *k, void *rstd, void *h, const void *delta)
{
    must(k->b->d->ops->llm.rmsnorm_fwd(k->b->d, k->b->dt, k->y.p, rstd, h,
                                       k->x.p, delta, k->w.p, k->rows, k->C,
                                       k->eps, ERR));
}

static void backward_again(struct rms *k, void *dx, void *dw, void *y,
                           const void *dy, const void *h, const void *extra)
{
    must(k->b->d->ops->llm.rmsnorm_bwd(k->b->d, k->b->dt, dx, dw, y, dy, h,
                                       k->rstd.p, k->w.p, extra, k->rows, k->C,
                                       ERR));
}

static void backward(struct rms *k, void *dx, void *dw, const void *h,
                     const void *extra)
{
    backward_again(k, dx, dw, NULL, k->dy.p, h, extra);
}

/* From the values H of h. */
static void expect_fwd(const struct rms *k, const double *H, double *Y,
                       double *R)
{
    for (int64_t r = 0; r < k->rows; r++) {
        double squares = 0;
        for (int64_t i = r * k->C; i < (r + 1) * k->C; i++)
            squares += H[i] * H[i];
        R[r] = 1 / sqrt(squares / k->C + k->eps);
        for (int64_t i = r * k->C; i < (r + 1) * k->C; i++)
            Y[i] = H[i] * R[r] * k->w.v[i % k->C];
    }
}

/* From the rstd that is in v; E is the extra gradient, or NULL. */
static void expect_bwd(const struct rms *k, const double *H, const double *E,
                       double *DX, double *DW)
{
    for (int64_t r = 0; r < k->rows; r++) {
        double R = k->rstd.v[r], mean = 0;
        for (int64_t i = r * k->C; i < (r + 1) * k->C; i++) {
            int64_t c = i % k->C;
            mean += k->w.v[c] * k->dy.v[i] * H[i] * R / k->C;
            DW[c] += k->dy.v[i] * H[i] * R;
        }
        for (int64_t i = r * k->C; i < (r + 1) * k->C; i++)
            DX[i] = R * (k->w.v[i % k->C] * k->dy.v[i] - H[i] * R * mean) +
                    (E ? E[i] : 0);
    }
}

static void check_fwd(struct rms *k)
{
    int64_t n = k->rows * k->C;
    double *H = zeros(n), *Y = zeros(n), *R = zeros(k->rows);

    expect_fwd(k, k->x.v, Y, R);
    forward(k, k->rstd.p, NULL, NULL);
    near(&k->y, Y, "rmsnorm_fwd %lld x %d, eps %g", (long long)k->rows, k->C,
         k->eps);
    near(&k->rstd, R, "rmsnorm_fwd rstd");
    forward(k, NULL, k->h.p, NULL);
    same(&k->h, k->x.v, "rmsnorm_fwd h without delta");

    for (int64_t i = 0; i < n; i++)
        H[i] = k->x.v[i] + k->delta.v[i];
    forward(k, k->rstd.p, k->h.p, k->delta.p);
    near(&k->h, H, "rmsnorm_fwd h with delta");
    expect_fwd(k, k->h.v, Y, R);
    near(&k->y, Y, "rmsnorm_fwd y with delta");
    near(&k->rstd, R, "rmsnorm_fwd rstd with delta");
    forward(k, NULL, k->x.p, k->delta.p);
    same(&k->x, k->h.v, "rmsnorm_fwd h over x");
    near(&k->y, Y, "rmsnorm_fwd y with h over x");
    forward(k, NULL, k->x.p, NULL);
    same(&k->x, k->h.v, "rmsnorm_fwd h over x, without delta");
    free(H);
    free(Y);
    free(R);
}

/* y and h are of one forward pass. DX: with extra. */
static void check_again(struct rms *k, const double *DX)
{
    const size_t bytes = (size_t)(k->rows * k->C) * dtype_bytes(k->b->dt);

    tensor_pull(&k->y);
    backward_again(k, k->dx.p, NULL, k->again.p, k->dy.p, k->h.p, k->extra.p);
    same(&k->again, k->y.v, "rmsnorm_bwd y has the bits of rmsnorm_fwd");
    near(&k->dx, DX, "rmsnorm_bwd dx beside y");
    must(k->b->d->ops->copy(k->b->d, k->again.p, k->dy.p, bytes, ERR));
    backward_again(k, k->dx.p, NULL, k->again.p, k->again.p, k->h.p,
                   k->extra.p);
    same(&k->again, k->y.v, "rmsnorm_bwd y over dy");
    near(&k->dx, DX, "rmsnorm_bwd dx with y over dy");
}

static void check_bwd(struct rms *k)
{
    const struct device_ops *ops = k->b->d->ops;
    int64_t n = k->rows * k->C;
    size_t bytes = (size_t)n * dtype_bytes(k->b->dt);
    double *DX = zeros(n), *DW = zeros(k->C), *none = zeros(k->C);

    expect_bwd(k, k->h.v, NULL, DX, DW);
    backward(k, k->dx.p, k->dw.p, k->h.p, NULL);
    near(&k->dx, DX, "rmsnorm_bwd dx %lld x %d", (long long)k->rows, k->C);
    near(&k->dw, DW, "rmsnorm_bwd dw");
    expect_bwd(k, k->h.v, k->extra.v, DX, none);
    backward(k, k->dx.p, NULL, k->h.p, k->extra.p);
    near(&k->dx, DX, "rmsnorm_bwd dx with extra");
    check_again(k, DX);
    must(ops->copy(k->b->d, k->dx.p, k->extra.p, bytes, ERR));
    backward(k, k->dx.p, NULL, k->h.p, k->dx.p);
    near(&k->dx, DX, "rmsnorm_bwd dx over extra");
    backward(k, k->dy.p, k->dw.p, k->h.p, k->extra.p);
    near(&k->dy, DX, "rmsnorm_bwd dx over dy");
    near(&k->dw, DW, "rmsnorm_bwd dw with dx over dy");
    free(DX);
    free(DW);
    free(none);
}

static void rms_one(struct bed *b, int64_t rows, int32_t C, double range,
                    double eps)
{
    struct rms k;

    rms_make(&k, b, rows, C, range, eps);
    check_fwd(&k);
    check_bwd(&k);
    rms_drop(&k);
}

/* Rows of ones and minus ones: rstd is 1. With a weight of 1 and C a power of
 * two the mean in dx is exact, too; extra and dy are integers. */
static void rms_exact(struct bed *b, int64_t rows, int32_t C)
{
    struct rms k;
    double *X = zeros(rows * C), *W = zeros(C);

    rms_make(&k, b, rows, C, 1, 0);
    tensor_drop(&k.dy);
    k.dy = tensor_ints(b, rows * C, -8, 8);
    for (int64_t i = 0; i < rows * C; i++)
        k.x.v[i] = k.x.v[i] < 0 ? -1 : 1;
    tensor_push(&k.x);
    for (int64_t i = 0; i < rows * C; i++)
        X[i] = k.x.v[i] * k.w.v[i % C];
    forward(&k, k.rstd.p, NULL, NULL);
    same(&k.y, X, "exact rmsnorm_fwd y %lld x %d", (long long)rows, C);
    tensor_pull(&k.rstd);
    for (int32_t c = 0; c < C; c++)
        k.w.v[c] = 1;
    tensor_push(&k.w);
    expect_bwd(&k, k.x.v, NULL, X, W);
    backward(&k, k.dx.p, k.dw.p, k.x.p, NULL);
    same(&k.dw, W, "exact rmsnorm_bwd dw %lld x %d", (long long)rows, C);
    if ((C & (C - 1)) == 0)
        same(&k.dx, X, "exact rmsnorm_bwd dx");
    free(X);
    free(W);
    rms_drop(&k);
}

static int64_t nans_of(struct tensor *t, int64_t lo, int64_t hi)
{
    int64_t n = 0;

    tensor_pull(t);
    for (int64_t i = lo; i < hi; i++)
        n += isnan(t->v[i]) ? 1 : 0;
    return n;
}

static void rms_nan(struct bed *b)
{
    enum { ROWS = 3, C = 8, N = ROWS * C };
    struct rms k;

    rms_make(&k, b, ROWS, C, 1, 1e-5);
    k.x.v[C + 3] = NAN;
    tensor_push(&k.x);
    forward(&k, k.rstd.p, NULL, NULL);
    is_int(nans_of(&k.y, C, 2 * C), C, "a NaN in x reaches its row");
    is_int(nans_of(&k.y, 0, N), C, "and no other");
    backward(&k, k.dx.p, k.dw.p, k.x.p, NULL);
    is_int(nans_of(&k.dx, C, 2 * C), C, "a NaN in h reaches its row of dx");
    is_int(nans_of(&k.dx, 0, N), C, "and no other");
    is_int(nans_of(&k.dw, 0, C), C, "and dw, by rstd");

    k.x.v[C + 3] = 0;
    tensor_push(&k.x);
    forward(&k, k.rstd.p, NULL, NULL);
    k.dy.v[2 * C + 1] = NAN;
    tensor_push(&k.dy);
    backward(&k, k.dx.p, k.dw.p, k.x.p, NULL);
    is_int(nans_of(&k.dx, 2 * C, N), C, "a NaN in dy reaches its row of dx");
    is_int(nans_of(&k.dx, 0, N), C, "and no other");
    is_int(nans_of(&k.dw, 1, 2), 1, "and its column of dw");
    is_int(nans_of(&k.dw, 0, C), 1, "and no other");
    rms_drop(&k);
}

/* Rows that begin beside the addresses that a vector needs. */
static void rms_beside(struct bed *b)
{
    enum { ROWS = 2, C = 64, N = ROWS * C };
    const size_t bytes = dtype_bytes(b->dt);
    struct tensor x = tensor_make(b, N + 1, -1, 1);
    struct tensor y = tensor_make(b, N + 1, 7, 8);
    struct rms k;
    double *Y = zeros(N + 1), *R = zeros(ROWS);

    rms_make(&k, b, ROWS, C, 1, 1e-5);
    expect_fwd(&k, x.v + 1, Y + 1, R);
    Y[0] = y.v[0];
    must(b->d->ops->llm.rmsnorm_fwd(b->d, b->dt, (char *)y.p + bytes, NULL,
                                    NULL, (char *)x.p + bytes, NULL, k.w.p,
                                    ROWS, C, k.eps, ERR));
    near(&y, Y, "rmsnorm_fwd one value beside the alignment");
    is_int(y.v[0] == Y[0], 1, "and nothing before it");
    free(Y);
    free(R);
    tensor_drop(&x);
    tensor_drop(&y);
    rms_drop(&k);
}

static void run_fwd(void *arg)
{
    struct rms *k = arg;

    forward(k, k->rstd.p, k->h.p, k->delta.p);
}

static void run_bwd(void *arg)
{
    struct rms *k = arg;

    backward(k, k->dx.p, NULL, k->h.p, k->extra.p);
}

static void rms_blocks(struct bed *b)
{
    struct rms k;

    rms_make(&k, b, 19, 65, 1, 1e-5);
    same_bits(&(struct call){b, run_fwd, &k}, &k.y, "rmsnorm_fwd");
    same_bits(&(struct call){b, run_bwd, &k}, &k.dx, "rmsnorm_bwd");
    rms_drop(&k);
}

static void rms_gradient(struct bed *b, int64_t rows, int32_t C)
{
    struct rms k;

    rms_make(&k, b, rows, C, 1, 1e-2);
    const struct call c = {b, run_fwd, &k};
    run_fwd(&k);
    backward(&k, k.dx.p, k.dw.p, k.h.p, NULL);
    differences(&c, &k.x, &k.dx, &k.y, k.dy.v, "rmsnorm x");
    differences(&c, &k.delta, &k.dx, &k.y, k.dy.v, "rmsnorm delta");
    differences(&c, &k.w, &k.dw, &k.y, k.dy.v, "rmsnorm w");
    rms_drop(&k);
}

static void rms_refusals(struct bed *b)
{
    const struct llm_ops *ops = &b->d->ops->llm;
    struct tensor t = tensor_make(b, 16, 1, 2);
    double *was = zeros(16);
    void *p = t.p;

    for (int i = 0; i < 16; i++)
        was[i] = t.v[i];
    refused(ops->rmsnorm_fwd(b->d, b->dt, p, p, p, p, p, p, 2, 0, 1e-5, ERR));
    refused(ops->rmsnorm_fwd(b->d, b->dt, p, p, p, p, p, p, -1, 4, 1e-5, ERR));
    refused(ops->rmsnorm_fwd(b->d, b->dt, p, p, p, p, p, p, 2, 4, -1, ERR));
    refused(ops->rmsnorm_fwd(b->d, b->dt, p, p, p, p, p, p, 2, 4, NAN, ERR));
    refused(
        ops->rmsnorm_fwd(b->d, b->dt, p, p, NULL, p, p, p, 2, 4, 1e-5, ERR));
    refused(ops->rmsnorm_fwd(b->d, DT_N, p, p, p, p, p, p, 2, 4, 1e-5, ERR));
    refused(ops->rmsnorm_bwd(b->d, b->dt, p, p, p, p, p, p, p, p, 2, 0, ERR));
    refused(ops->rmsnorm_bwd(b->d, b->dt, p, p, p, p, p, p, p, p, -1, 4, ERR));
    refused(ops->rmsnorm_bwd(b->d, DT_N, p, p, p, p, p, p, p, p, 2, 4, ERR));
    same(&t, was, "a refused rmsnorm writes nothing");
    free(was);
    tensor_drop(&t);
}

void contract_llm_norm(struct bed *b)
{
    rms_one(b, 0, 64, 1, 1e-5);
    rms_one(b, 1, 64, 2, 1e-5);
    rms_one(b, 50, 1, 1, 0.5);
    rms_one(b, 13, 7, 3, 1e-6);
    rms_one(b, 5, 65, 1e-3, 1e-5); /* eps counts */
    rms_one(b, 2, 4096, 1, 1e-5);
    rms_exact(b, 1, 1);
    rms_exact(b, 129, 3);
    rms_exact(b, 65, 64);
    rms_exact(b, 3, 1024);
    rms_nan(b);
    rms_beside(b);
    rms_blocks(b);
    rms_refusals(b);
    if (b->small)
        return;
    rms_one(b, 300, 288, 1, 1e-5);
    rms_one(b, 1000, 96, 30, 1e-5);
    rms_exact(b, 3000, 97);
    rms_exact(b, 4096, 64);
    if (b->dt == DT_F64) {
        rms_gradient(b, 3, 7);
        rms_gradient(b, 2, 16);
    }
}
