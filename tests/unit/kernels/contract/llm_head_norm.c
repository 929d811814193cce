/* llm_head_norm.c - RMSNorm of each head, in place within wider rows: values,
 * gradients, what lies between the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

struct heads {
    struct bed *b;
    int64_t rows;
    int32_t heads, D, ld;
    double eps;
    struct bed acc;               /* for rstd: as llm_norm.c */
    struct tensor x, y, dy, dx;   /* [rows, ld] */
    struct tensor w, dw, h, rstd; /* h, rstd: dense */
};

static void heads_make(struct heads *k, struct bed *b, int64_t rows,
                       int32_t heads, int32_t D, int32_t ld, double range,
                       double eps)
{
    *k = (struct heads){.b = b,
                        .rows = rows,
                        .heads = heads,
                        .D = D,
                        .ld = ld,
                        .eps = eps,
                        .acc = *b};
    k->acc.tol = dtype_acc(b->dt) == DT_F64 ? 1e-12 : 2e-5;
    k->x = tensor_make(b, rows * ld, -range, range);
    k->y = tensor_make(b, rows * ld, 7, 8);
    k->dy = tensor_make(b, rows * ld, -1, 1);
    k->dx = tensor_make(b, rows * ld, 7, 8);
    k->w = tensor_make(b, D, -1, 2);
    k->dw = tensor_make(b, D, 7, 8);
    k->h = tensor_make(b, rows * heads * D, 7, 8);
    k->rstd = tensor_acc(&k->acc, rows * heads, 7, 8);
}

static void heads_drop(struct heads *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->y);
    tensor_drop(&k->dy);
    tensor_drop(&k->dx);
    tensor_drop(&k->w);
    tensor_drop(&k->dw);
    tensor_drop(&k->h);
    tensor_drop(&k->rstd);
}

static void copy_rows(struct heads *k, struct tensor *to,
                      const struct tensor *from)
{
    must(k->b->d->ops->copy(k->b->d, to->p, from->p,
                            (size_t)(k->rows * k->ld) * dtype_bytes(k->b->dt),
                            ERR));
}

/* y becomes the norm of x. */
static void forward(struct heads *k, void *h, void *rstd)
{
    copy_rows(k, &k->y, &k->x);
    must(k->b->d->ops->llm.head.norm_fwd(k->b->d, k->b->dt, k->y.p, k->ld, h,
                                         rstd, k->w.p, k->rows, k->heads, k->D,
                                         k->eps, ERR));
}

/* dx becomes the gradient, from dy. */
static void backward(struct heads *k, void *dw)
{
    copy_rows(k, &k->dx, &k->dy);
    must(k->b->d->ops->llm.head.norm_bwd(k->b->d, k->b->dt, k->dx.p, k->ld, dw,
                                         k->h.p, k->rstd.p, k->w.p, k->rows,
                                         k->heads, k->D, ERR));
}

/* The first value of head i of all in an array of rows. */
static int64_t at(const struct heads *k, int64_t i)
{
    return i / k->heads * k->ld + i % k->heads * k->D;
}

/* From x. What lies between the rows stays. */
static void expect_fwd(const struct heads *k, double *Y, double *H, double *R)
{
    memcpy(Y, k->x.v, (size_t)k->x.n * sizeof(*Y));
    for (int64_t i = 0; i < k->rows * k->heads; i++) {
        const double *x = k->x.v + at(k, i);
        double squares = 0;
        for (int32_t c = 0; c < k->D; c++)
            squares += x[c] * x[c];
        R[i] = 1 / sqrt(squares / k->D + k->eps);
        for (int32_t c = 0; c < k->D; c++) {
            H[i * k->D + c] = x[c];
            Y[at(k, i) + c] = x[c] * R[i] * k->w.v[c];
        }
    }
}

/* From the h and the rstd that are in v. */
static void expect_bwd(const struct heads *k, double *DX, double *DW)
{
    memcpy(DX, k->dy.v, (size_t)k->dy.n * sizeof(*DX));
    for (int64_t i = 0; i < k->rows * k->heads; i++) {
        const double *dy = k->dy.v + at(k, i), *h = k->h.v + i * k->D;
        double R = k->rstd.v[i], mean = 0;
        for (int32_t c = 0; c < k->D; c++) {
            mean += k->w.v[c] * dy[c] * h[c] * R / k->D;
            DW[c] += dy[c] * h[c] * R;
        }
        for (int32_t c = 0; c < k->D; c++)
            DX[at(k, i) + c] = R * (k->w.v[c] * dy[c] - h[c] * R * mean);
    }
}

/* Values of an array of rows that belong to no head and are others now. */
static int64_t moved(const struct heads *k, struct tensor *t,
                     const struct tensor *was)
{
    int64_t n = 0;

    tensor_pull(t);
    for (int64_t i = 0; i < t->n; i++)
        n += i % k->ld >= (int64_t)k->heads * k->D && t->v[i] != was->v[i];
    return n;
}

static void heads_one(struct bed *b, int64_t rows, int32_t heads, int32_t D,
                      int32_t ld, double range, double eps)
{
    struct heads k;

    heads_make(&k, b, rows, heads, D, ld, range, eps);
    double *Y = zeros(k.x.n), *H = zeros(k.h.n), *R = zeros(k.rstd.n);
    double *DX = zeros(k.x.n), *DW = zeros(D);
    expect_fwd(&k, Y, H, R);
    forward(&k, k.h.p, k.rstd.p);
    near(&k.y, Y, "norm_fwd %lld x %d x %d, stride %d", (long long)rows, heads,
         D, ld);
    same(&k.h, H, "norm_fwd h");
    near(&k.rstd, R, "norm_fwd rstd");
    is_int(moved(&k, &k.y, &k.x), 0, "norm_fwd leaves what is between rows");
    memcpy(Y, k.y.v, (size_t)k.y.n * sizeof(*Y));
    forward(&k, NULL, NULL);
    same(&k.y, Y, "norm_fwd without h and rstd");

    tensor_pull(&k.h);
    tensor_pull(&k.rstd);
    expect_bwd(&k, DX, DW);
    backward(&k, k.dw.p);
    near(&k.dx, DX, "norm_bwd dx");
    near(&k.dw, DW, "norm_bwd dw");
    is_int(moved(&k, &k.dx, &k.dy), 0, "norm_bwd leaves what is between rows");
    memcpy(DX, k.dx.v, (size_t)k.dx.n * sizeof(*DX));
    backward(&k, NULL);
    same(&k.dx, DX, "norm_bwd without dw");
    free(Y);
    free(H);
    free(R);
    free(DX);
    free(DW);
    heads_drop(&k);
}

/* Heads of ones and minus ones, without eps: rstd is 1. dy is of integers, so
 * every order of the sum for dw gives it exactly. */
static void heads_exact(struct bed *b, int64_t rows, int32_t heads, int32_t D)
{
    struct heads k;

    heads_make(&k, b, rows, heads, D, heads * D, 1, 0);
    double *X = zeros(k.x.n), *DX = zeros(k.x.n), *DW = zeros(D);
    tensor_drop(&k.dy);
    k.dy = tensor_ints(b, k.x.n, -8, 8);
    for (int64_t i = 0; i < k.x.n; i++) {
        k.x.v[i] = k.x.v[i] < 0 ? -1 : 1;
        X[i] = k.x.v[i] * k.w.v[i % D];
    }
    tensor_push(&k.x);
    forward(&k, k.h.p, k.rstd.p);
    same(&k.y, X, "exact norm_fwd %lld x %d x %d", (long long)rows, heads, D);
    tensor_pull(&k.h);
    tensor_pull(&k.rstd);
    expect_bwd(&k, DX, DW);
    backward(&k, k.dw.p);
    same(&k.dw, DW, "exact norm_bwd dw");
    free(X);
    free(DX);
    free(DW);
    heads_drop(&k);
}

static int64_t nans_of(struct tensor *t, int64_t lo, int64_t hi)
{
    int64_t n = 0;

    tensor_pull(t);
    for (int64_t i = lo; i < hi; i++)
        n += isnan(t->v[i]) ? 1 : 0;
    return n;
}

static void heads_nan(struct bed *b)
{
    enum { ROWS = 3, HEADS = 2, D = 8, LD = 20, N = ROWS * LD };
    enum { IN = LD + D }; /* the second head of the second row */
    struct heads k;

    heads_make(&k, b, ROWS, HEADS, D, LD, 1, 1e-5);
    k.x.v[IN + 3] = NAN;
    tensor_push(&k.x);
    forward(&k, k.h.p, k.rstd.p);
    is_int(nans_of(&k.y, IN, IN + D), D, "a NaN in x reaches its head");
    is_int(nans_of(&k.y, 0, N), D, "and no other");
    backward(&k, k.dw.p);
    is_int(nans_of(&k.dx, IN, IN + D), D, "a NaN in h reaches its head of dx");
    is_int(nans_of(&k.dx, 0, N), D, "and no other");
    is_int(nans_of(&k.dw, 0, D), D, "and dw, by rstd");

    k.x.v[IN + 3] = 0;
    tensor_push(&k.x);
    forward(&k, k.h.p, k.rstd.p);
    k.dy.v[1] = NAN;
    tensor_push(&k.dy);
    backward(&k, k.dw.p);
    is_int(nans_of(&k.dx, 0, D), D, "a NaN in dy reaches its head of dx");
    is_int(nans_of(&k.dx, 0, N), D, "and no other");
    is_int(nans_of(&k.dw, 1, 2), 1, "and its column of dw");
    is_int(nans_of(&k.dw, 0, D), 1, "and no other");
    heads_drop(&k);
}

static void run_fwd(void *arg)
{
    struct heads *k = arg;

    forward(k, k->h.p, k->rstd.p);
}

static void run_bwd(void *arg)
{
    backward(arg, NULL);
}

static void heads_blocks(struct bed *b)
{
    struct heads k;

    heads_make(&k, b, 19, 3, 6, 20, 1, 1e-5);
    same_bits(&(struct call){b, run_fwd, &k}, &k.y, "norm_fwd of heads");
    same_bits(&(struct call){b, run_bwd, &k}, &k.dx, "norm_bwd of heads");
    heads_drop(&k);
}

/* What is between the rows is passed on: its gradient is its dy. */
static void heads_gradient(struct bed *b, int64_t rows, int32_t heads,
                           int32_t D, int32_t ld)
{
    struct heads k;

    heads_make(&k, b, rows, heads, D, ld, 1, 1e-2);
    const struct call c = {b, run_fwd, &k};
    run_fwd(&k);
    backward(&k, k.dw.p);
    differences(&c, &k.x, &k.dx, &k.y, k.dy.v, "norm of heads x");
    differences(&c, &k.w, &k.dw, &k.y, k.dy.v, "norm of heads w");
    heads_drop(&k);
}

static void heads_refusals(struct bed *b)
{
    const struct head_ops *ops = &b->d->ops->llm.head;
    struct tensor t = tensor_make(b, 16, 1, 2);
    struct device *d = b->d;
    const enum dtype dt = b->dt;
    double *was = zeros(16);
    void *p = t.p;

    memcpy(was, t.v, 16 * sizeof(*was));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, -1, 2, 4, 1e-5, ERR));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, 2, 0, 4, 1e-5, ERR));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, 2, 2, 0, 1e-5, ERR));
    refused(ops->norm_fwd(d, dt, p, 7, p, p, p, 2, 2, 4, 1e-5, ERR));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, 2, 2, 4, -1, ERR));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, 2, 2, 4, NAN, ERR));
    refused(ops->norm_fwd(d, dt, p, 8, p, p, p, 2, 1 << 20, 1 << 12, 0, ERR));
    refused(ops->norm_fwd(d, DT_N, p, 8, p, p, p, 2, 2, 4, 1e-5, ERR));
    refused(ops->norm_bwd(d, dt, p, 8, p, p, p, p, -1, 2, 4, ERR));
    refused(ops->norm_bwd(d, dt, p, 8, p, p, p, p, 2, 0, 4, ERR));
    refused(ops->norm_bwd(d, dt, p, 8, p, p, p, p, 2, 2, 0, ERR));
    refused(ops->norm_bwd(d, dt, p, 7, p, p, p, p, 2, 2, 4, ERR));
    refused(ops->norm_bwd(d, DT_N, p, 8, p, p, p, p, 2, 2, 4, ERR));
    same(&t, was, "a refused norm of heads writes nothing");
    free(was);
    tensor_drop(&t);
}

void contract_llm_head_norm(struct bed *b)
{
    heads_one(b, 0, 2, 8, 16, 1, 1e-5);
    heads_one(b, 1, 1, 1, 1, 1, 0.5);
    heads_one(b, 13, 2, 7, 29, 3, 1e-5);
    heads_one(b, 5, 5, 16, 96, 2, 1e-5);
    heads_one(b, 5, 5, 16, 97, 1e-3,
              1e-5); /* beside the alignment; eps counts */
    heads_one(b, 3, 2, 256, 4 * 256, 1, 1e-5);
    heads_one(b, 2, 40, 128, 48 * 128, 1, 1e-5);
    heads_exact(b, 65, 3, 8);
    heads_exact(b, 9, 2, 64);
    heads_nan(b);
    heads_blocks(b);
    heads_refusals(b);
    if (b->small)
        return;
    heads_one(b, 300, 8, 64, 12 * 64, 1, 1e-5);
    heads_exact(b, 3000, 2, 97);
    if (b->dt == DT_F64) {
        heads_gradient(b, 3, 2, 7, 15);
        heads_gradient(b, 2, 3, 8, 24);
    }
}
