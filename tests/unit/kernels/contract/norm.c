/* norm.c - batch norm: training, evaluation and gradients. */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

enum { EPS_INV = 1000 };
static const double eps = 1.0 / EPS_INV, momentum = 0.1;

struct norm_case {
    int64_t rows;
    int32_t C;
    double cap, shift;
    struct tensor x, gamma, beta, y, mean, rstd, run_mean, run_var;
};

static struct norm_case norm_make(struct bed *b, int64_t rows, int32_t C,
                                  double cap, double shift)
{
    struct norm_case k = {.rows = rows, .C = C, .cap = cap, .shift = shift};

    k.x = tensor_make(b, rows * C, shift - 2, shift + 2);
    k.gamma = tensor_make(b, C, 0.5, 3);
    k.beta = tensor_make(b, C, -1, 3);
    k.y = tensor_make(b, rows * C, 7, 8);
    k.mean = tensor_acc(b, C, 7, 8);
    k.rstd = tensor_acc(b, C, 7, 8);
    k.run_mean = tensor_acc(b, C, -1, 1);
    k.run_var = tensor_acc(b, C, 0.5, 2);
    return k;
}

static void norm_drop(struct norm_case *k)
{
    tensor_drop(&k->x);
    tensor_drop(&k->gamma);
    tensor_drop(&k->beta);
    tensor_drop(&k->y);
    tensor_drop(&k->mean);
    tensor_drop(&k->rstd);
    tensor_drop(&k->run_mean);
    tensor_drop(&k->run_var);
}

static double clamp(double z, double cap)
{
    return cap > 0 ? fmin(fmax(z, 0), cap) : z;
}

/* y from the statistics that are in v of mean and rstd. */
static void norm_y(const struct norm_case *k, const double *mean,
                   const double *rstd, double *Y)
{
    for (int64_t i = 0; i < k->rows * k->C; i++) {
        int64_t c = i % k->C;
        double h = (k->x.v[i] - mean[c]) * rstd[c];
        Y[i] = clamp(h * k->gamma.v[c] + k->beta.v[c], k->cap);
    }
}

static void check_fwd(struct bed *b, struct norm_case *k)
{
    int64_t rows = k->rows, C = k->C;
    double *M = zeros(C), *V = zeros(C), *R = zeros(C), *Y = zeros(rows * C);
    double *RM = zeros(C), *RV = zeros(C);

    for (int64_t i = 0; i < rows * C; i++)
        M[i % C] += k->x.v[i] / (double)rows;
    for (int64_t i = 0; i < rows * C; i++)
        V[i % C] += (k->x.v[i] - M[i % C]) * (k->x.v[i] - M[i % C]);
    for (int64_t c = 0; c < C; c++) {
        R[c] = 1 / sqrt(V[c] / (double)rows + eps);
        RM[c] = 0.9 * k->run_mean.v[c] + 0.1 * M[c];
        RV[c] = 0.9 * k->run_var.v[c] + 0.1 * V[c] / (double)(rows - 1);
    }
    must(b->d->ops->bn_fwd(b->d, b->dt, k->y.p, k->mean.p, k->rstd.p,
                           k->run_mean.p, k->run_var.p, k->x.p, k->gamma.p,
                           k->beta.p, rows, k->C, eps, momentum, k->cap, ERR));
    near(&k->mean, M, "bn_fwd mean of %lld x %d about %g", (long long)rows,
         k->C, k->shift);
    near(&k->rstd, R, "bn_fwd rstd");
    near(&k->run_mean, RM, "bn_fwd running mean");
    near(&k->run_var, RV, "bn_fwd running variance");
    /* The rounding of a mean of 100 is that of the data, not of the kernel:
     * y is judged from the statistics it says it used. */
    norm_y(k, k->mean.v, k->rstd.v, Y);
    near(&k->y, Y, "bn_fwd y, cap %g", k->cap);
    free(M);
    free(V);
    free(R);
    free(Y);
    free(RM);
    free(RV);
}

static void check_eval(struct bed *b, struct norm_case *k)
{
    int64_t n = k->rows * k->C;
    double *R = zeros(k->C), *Y = zeros(n);

    for (int64_t c = 0; c < k->C; c++)
        R[c] = 1 / sqrt(k->run_var.v[c] + eps);
    norm_y(k, k->run_mean.v, R, Y);
    must(b->d->ops->bn_eval(b->d, b->dt, k->y.p, k->x.p, k->run_mean.p,
                            k->run_var.p, k->gamma.p, k->beta.p, k->rows, k->C,
                            eps, k->cap, ERR));
    near(&k->y, Y, "bn_eval y, cap %g", k->cap);
    free(R);
    free(Y);
}

static void check_bwd(struct bed *b, struct norm_case *k)
{
    int64_t n = k->rows * k->C, C = k->C;
    struct tensor dy = tensor_make(b, n, -1, 1);
    struct tensor dgamma = tensor_make(b, C, 7, 8);
    struct tensor dbeta = tensor_make(b, C, 7, 8);
    double *D = zeros(n), *H = zeros(n), *DG = zeros(C), *DB = zeros(C);

    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % C;
        H[i] = (k->x.v[i] - k->mean.v[c]) * k->rstd.v[c];
        double z = H[i] * k->gamma.v[c] + k->beta.v[c];
        D[i] = k->cap > 0 && !(z > 0 && z < k->cap) ? 0 : dy.v[i];
        DG[c] += D[i] * H[i];
        DB[c] += D[i];
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % C;
        double off = (H[i] * DG[c] + DB[c]) / (double)k->rows;
        D[i] = k->gamma.v[c] * k->rstd.v[c] * (D[i] - off);
    }
    /* dx over dy, which the contract allows. */
    must(b->d->ops->bn_bwd(b->d, b->dt, dy.p, dgamma.p, dbeta.p, dy.p, k->x.p,
                           k->mean.p, k->rstd.p, k->gamma.p, k->beta.p, k->rows,
                           k->C, k->cap, ERR));
    near(&dgamma, DG, "bn_bwd dgamma, cap %g", k->cap);
    near(&dbeta, DB, "bn_bwd dbeta");
    near(&dy, D, "bn_bwd dx over dy");
    free(D);
    free(H);
    free(DG);
    free(DB);
    tensor_drop(&dy);
    tensor_drop(&dgamma);
    tensor_drop(&dbeta);
}

static void norm_one(struct bed *b, int64_t rows, int32_t C, double cap,
                     double shift)
{
    struct norm_case k = norm_make(b, rows, C, cap, shift);

    check_fwd(b, &k);
    check_eval(b, &k);
    check_bwd(b, &k);
    norm_drop(&k);
}

/* A clamp must not turn a NaN into a number: the loss has to show it. */
static void norm_nan(struct bed *b)
{
    struct norm_case k = norm_make(b, 8, 8, 6, 0);

    k.x.v[3] = NAN;
    tensor_push(&k.x);
    must(b->d->ops->bn_fwd(b->d, b->dt, k.y.p, k.mean.p, k.rstd.p, k.run_mean.p,
                           k.run_var.p, k.x.p, k.gamma.p, k.beta.p, 8, 8, eps,
                           momentum, 6, ERR));
    tensor_pull(&k.y);
    int nans = 0;
    for (int i = 0; i < 64; i++)
        nans += isnan(k.y.v[i]) ? 1 : 0;
    is_int(nans, 8, "bn_fwd: a NaN reaches its column, and only that");
    norm_drop(&k);
}

void contract_norm(struct bed *b)
{
    norm_one(b, 50, 3, 6, 0);
    norm_one(b, 2, 5, 0, 0);
    norm_one(b, 147, 24, 0, 3);
    norm_one(b, 98, 160, 6, -1);
    norm_one(b, 500, 8, 0, 100);
    norm_one(b, 300, 16, 6, 0.5);
    norm_nan(b);
    if (b->small)
        return;
    norm_one(b, 9, 1280, 0, 0);
    norm_one(b, 16384, 32, 6, 0);
    norm_one(b, 1001, 963, 6, 0);
}
