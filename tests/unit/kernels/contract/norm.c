/* norm.c - batch norm alone: statistics, values and gradients.
 *
 * Statistics are left by convolutions, so a depthwise one that changes
 * nothing, its filter 1 in the middle, stands before the norm.
 */
#include <math.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

enum { EPS_INV = 1000 };
static const double eps = 1.0 / (double)EPS_INV, momentum = 0.1;

struct norm_case {
    int64_t rows;
    int32_t C;
    double cap, shift;
    struct tensor x, gamma, beta, y, mean, rstd, run_mean, run_var;
    struct tensor z, filter;
};

static struct conv3 shape_of(const struct norm_case *k)
{
    int32_t rows = (int32_t)k->rows;
    return (struct conv3){1, rows, 1, k->C, rows, 1, 1};
}

static struct norm norm_of(const struct norm_case *k)
{
    return (struct norm){k->mean.p, k->rstd.p, k->gamma.p, k->beta.p, k->cap};
}

static void forward(struct bed *b, struct norm_case *k)
{
    const struct conv3 s = shape_of(k);
    const struct norm_stats stats = {k->mean.p,    k->rstd.p, k->run_mean.p,
                                     k->run_var.p, eps,       momentum};
    const struct norm n = norm_of(k);
    must(b->d->ops->dw_fwd(b->d, b->dt, k->z.p, &stats, k->x.p, NULL,
                           k->filter.p, &s, ERR));
    must(b->d->ops->norm_apply(b->d, b->dt, k->y.p, k->z.p, &n, NULL, k->rows,
                               k->C, ERR));
}

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
    k.z = tensor_make(b, rows * C, 7, 8);
    k.filter = tensor_make(b, (int64_t)9 * C, 0, 0);
    for (int32_t c = 0; c < C; c++)
        k.filter.v[4 * C + c] = 1;
    tensor_push(&k.filter);
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
    tensor_drop(&k->z);
    tensor_drop(&k->filter);
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
    forward(b, k);
    same(&k->z, k->x.v, "a convolution that changes nothing");
    near(&k->mean, M, "the mean of %lld x %d about %g", (long long)rows, k->C,
         k->shift);
    near(&k->rstd, R, "rstd");
    near(&k->run_mean, RM, "running mean");
    near(&k->run_var, RV, "running variance");
    /* The rounding of a mean of 100 is that of the data, not of the kernel:
     * y is judged from the statistics it says it used. */
    norm_y(k, k->mean.v, k->rstd.v, Y);
    near(&k->y, Y, "norm_apply y, cap %g", k->cap);
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
    must(b->d->ops->norm_rstd(b->d, b->dt, k->rstd.p, k->run_var.p, k->C, eps,
                              ERR));
    near(&k->rstd, R, "norm_rstd");
    struct norm norm = norm_of(k);
    norm.mean = k->run_mean.p;
    must(b->d->ops->norm_apply(b->d, b->dt, k->y.p, k->x.p, &norm, NULL,
                               k->rows, k->C, ERR));
    norm_y(k, k->run_mean.v, k->rstd.v, Y);
    near(&k->y, Y, "by running statistics, cap %g", k->cap);
    free(R);
    free(Y);
}

static void check_bwd(struct bed *b, struct norm_case *k)
{
    int64_t n = k->rows * k->C, C = k->C;
    struct tensor dy = tensor_make(b, n, -1, 1), dx = tensor_make(b, n, 7, 8);
    struct tensor sums = tensor_acc(b, 2 * C, 7, 8);
    struct tensor dgamma = tensor_make(b, C, 7, 8);
    struct tensor dbeta = tensor_make(b, C, 7, 8);
    struct tensor dw = tensor_make(b, 9 * C, 7, 8);
    double *D = zeros(n), *H = zeros(n), *S = zeros(2 * C);
    const struct norm_grad out = {sums.p, dgamma.p, dbeta.p};
    const struct norm norm = norm_of(k);
    const struct conv3 s = shape_of(k);

    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % C;
        H[i] = (k->x.v[i] - k->mean.v[c]) * k->rstd.v[c];
        double z = H[i] * k->gamma.v[c] + k->beta.v[c];
        D[i] = k->cap > 0 && !(z > 0 && z < k->cap) ? 0 : dy.v[i];
        S[c] += D[i] * H[i];
        S[C + c] += D[i];
    }
    must(b->d->ops->norm_grads(b->d, b->dt, dy.p, &out, k->x.p, &norm, k->rows,
                               k->C, ERR));
    near(&sums, S, "norm_grads sums, cap %g", k->cap);
    near(&dgamma, S, "norm_grads dgamma");
    near(&dbeta, S + C, "norm_grads dbeta");
    near(&dy, D, "norm_grads d");
    for (int64_t i = 0; i < n; i++) {
        int64_t c = i % C;
        double off = (H[i] * sums.v[c] + sums.v[C + c]) / (double)k->rows;
        D[i] *= k->gamma.v[c] * k->rstd.v[c];
        H[i] = off * k->gamma.v[c] * k->rstd.v[c];
    }
    must(b->d->ops->dw_bwd(b->d, b->dt, dx.p, dw.p, NULL, dy.p, k->x.p, &norm,
                           sums.p, k->x.p, NULL, k->filter.p, &s, ERR));
    /* Of two rows the terms all but cancel: judged by their size, not by that
     * of the difference. */
    tensor_pull(&dx);
    for (int64_t i = 0; i < n; i++)
        dx.v[i] += H[i];
    tensor_push(&dx);
    near(&dx, D, "the gradient before the norm");
    free(D);
    free(H);
    free(S);
    tensor_drop(&dy);
    tensor_drop(&dx);
    tensor_drop(&sums);
    tensor_drop(&dgamma);
    tensor_drop(&dbeta);
    tensor_drop(&dw);
}

static void norm_one(struct bed *b, int64_t rows, int32_t C, double cap,
                     double shift)
{
    struct norm_case k = norm_make(b, rows, C, cap, shift);

    check_fwd(b, &k);
    check_bwd(b, &k);
    check_eval(b, &k);
    norm_drop(&k);
}

/* A clamp must not turn a NaN into a number: the loss has to show it. */
static void norm_nan(struct bed *b)
{
    struct norm_case k = norm_make(b, 8, 8, 6, 0);

    k.x.v[3] = NAN;
    tensor_push(&k.x);
    forward(b, &k);
    tensor_pull(&k.y);
    int nans = 0;
    for (int i = 0; i < 64; i++)
        nans += isnan(k.y.v[i]) ? 1 : 0;
    is_int(nans, 8, "a NaN reaches its column, and only that");
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
