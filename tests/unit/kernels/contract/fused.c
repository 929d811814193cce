/* fused.c - convolutions that apply the norm before them and sum for the one
 * behind them, forwards and backwards, against the formulas in double.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/tap.h"
#include "tests/unit/kernels/contract/bed.h"

static const double eps = 1e-3, momentum = 0.1;

/* A norm over C columns with statistics that are given. */
struct side {
    struct tensor mean, rstd, gamma, beta;
    double cap;
};

static struct side side_make(struct bed *b, int32_t C, double cap)
{
    struct side s = {.mean = tensor_acc(b, C, -1, 1),
                     .rstd = tensor_acc(b, C, 0.5, 2),
                     .gamma = tensor_make(b, C, 0.5, 3),
                     .beta = tensor_make(b, C, -1, 3),
                     .cap = cap};
    return s;
}

static void side_drop(struct side *s)
{
    tensor_drop(&s->mean);
    tensor_drop(&s->rstd);
    tensor_drop(&s->gamma);
    tensor_drop(&s->beta);
}

static struct norm side_norm(const struct side *s)
{
    return (struct norm){s->mean.p, s->rstd.p, s->gamma.p, s->beta.p, s->cap};
}

static double hat_of(const struct side *s, int64_t c, double x)
{
    return (x - s->mean.v[c]) * s->rstd.v[c];
}

static double before_clamp(const struct side *s, int64_t c, double x)
{
    return hat_of(s, c, x) * s->gamma.v[c] + s->beta.v[c];
}

static double u_of(const struct side *s, int64_t c, double x)
{
    double z = before_clamp(s, c, x);
    return s->cap > 0 ? fmin(fmax(z, 0), s->cap) : z;
}

static bool is_cut(const struct side *s, int64_t c, double x)
{
    double z = before_clamp(s, c, x);
    return s->cap > 0 && !(z > 0 && z < s->cap);
}

/* What a kernel is to leave about z [rows, C]. */
struct leaves {
    struct tensor mean, rstd, run_mean, run_var;
};

static struct leaves leaves_make(struct bed *b, int32_t C)
{
    return (struct leaves){tensor_acc(b, C, 7, 8), tensor_acc(b, C, 7, 8),
                           tensor_acc(b, C, -1, 1), tensor_acc(b, C, 0.5, 2)};
}

static struct norm_stats leaves_stats(const struct leaves *l)
{
    return (struct norm_stats){l->mean.p,    l->rstd.p, l->run_mean.p,
                               l->run_var.p, eps,       momentum};
}

static void check_leaves(struct leaves *l, const double *z, int64_t rows,
                         int32_t C, const char *what)
{
    double *m = zeros(C), *v = zeros(C), *r = zeros(C);
    double *rm = zeros(C), *rv = zeros(C);
    for (int64_t i = 0; i < rows * C; i++)
        m[i % C] += z[i] / (double)rows;
    for (int64_t i = 0; i < rows * C; i++)
        v[i % C] += (z[i] - m[i % C]) * (z[i] - m[i % C]);
    for (int64_t c = 0; c < C; c++) {
        r[c] = 1 / sqrt(v[c] / (double)rows + eps);
        rm[c] = 0.9 * l->run_mean.v[c] + 0.1 * m[c];
        rv[c] = 0.9 * l->run_var.v[c] + 0.1 * v[c] / (double)(rows - 1);
    }
    near(&l->mean, m, "%s: mean", what);
    near(&l->rstd, r, "%s: rstd", what);
    near(&l->run_mean, rm, "%s: running mean", what);
    near(&l->run_var, rv, "%s: running variance", what);
    free(m);
    free(v);
    free(r);
    free(rm);
    free(rv);
}

static void leaves_drop(struct leaves *l)
{
    tensor_drop(&l->mean);
    tensor_drop(&l->rstd);
    tensor_drop(&l->run_mean);
    tensor_drop(&l->run_var);
}

/* ---- the backward pass's two ends ----------------------------------------
 */
struct grads {
    struct tensor sums, dgamma, dbeta;
};

static struct grads grads_make(struct bed *b, int32_t C)
{
    return (struct grads){tensor_acc(b, 2 * C, 7, 8), tensor_make(b, C, 7, 8),
                          tensor_make(b, C, 7, 8)};
}

static struct norm_grad grads_out(const struct grads *g)
{
    return (struct norm_grad){g->sums.p, g->dgamma.p, g->dbeta.p};
}

/* Gates d [rows, C] of the norm of x in place, and judges the sums. */
static void check_grads(struct grads *g, const struct side *s, const double *x,
                        double *d, int64_t rows, int32_t C, const char *what)
{
    double *sums = zeros((int64_t)2 * C);
    for (int64_t i = 0; i < rows * C; i++) {
        int64_t c = i % C;
        d[i] = is_cut(s, c, x[i]) ? 0 : d[i];
        sums[c] += d[i] * hat_of(s, c, x[i]);
        sums[C + c] += d[i];
    }
    near(&g->sums, sums, "%s: sums", what);
    near(&g->dgamma, sums, "%s: dgamma", what);
    near(&g->dbeta, sums + C, "%s: dbeta", what);
    free(sums);
}

static void grads_drop(struct grads *g)
{
    tensor_drop(&g->sums);
    tensor_drop(&g->dgamma);
    tensor_drop(&g->dbeta);
}

/* dz [rows, C] of a norm with its own sums. */
static double *dz_of(const struct side *s, const double *dn, const double *z,
                     const double *sums, int64_t rows, int32_t C)
{
    double *dz = zeros(rows * C);
    for (int64_t i = 0; i < rows * C; i++) {
        int64_t c = i % C;
        double off = hat_of(s, c, z[i]) * sums[c] + sums[C + c];
        dz[i] = s->gamma.v[c] * s->rstd.v[c] * (dn[i] - off / (double)rows);
    }
    return dz;
}

/* ---- 1x1 ------------------------------------------------------------------
 */
struct pw {
    int64_t rows;
    int32_t K, N;
    bool has_norm, has_skip, keeps_y;
    double cap;
};

static void pw_forward(struct bed *b, const struct pw *k)
{
    struct tensor x = tensor_make(b, k->rows * k->K, -2, 2);
    struct tensor skip = tensor_make(b, k->rows * k->K, -1, 1);
    struct tensor y = tensor_make(b, k->rows * k->K, 5, 6);
    struct tensor w = tensor_make(b, (int64_t)k->N * k->K, -1, 1);
    struct tensor z = tensor_make(b, k->rows * k->N, 5, 6);
    struct side in = side_make(b, k->K, k->cap);
    struct leaves l = leaves_make(b, k->N);
    struct norm norm = side_norm(&in);
    struct norm_stats stats = leaves_stats(&l);
    double *U = zeros(x.n), *Z = zeros(z.n);

    for (int64_t i = 0; i < x.n; i++)
        U[i] = (k->has_norm ? u_of(&in, i % k->K, x.v[i]) : x.v[i]) +
               (k->has_skip ? skip.v[i] : 0);
    must(b->d->ops->pw_fwd(
        b->d, b->dt, z.p, k->rows > 1 ? &stats : NULL, k->keeps_y ? y.p : NULL,
        x.p, k->has_norm ? &norm : NULL, k->has_skip ? skip.p : NULL, w.p,
        k->rows, k->K, k->N, ERR));
    if (k->keeps_y) {
        near(&y, U, "pw_fwd %lld x %d: y", (long long)k->rows, k->K);
        for (int64_t i = 0; i < x.n; i++)
            U[i] = y.v[i]; /* z is judged from what it kept */
    }
    for (int64_t i = 0; i < z.n; i++)
        for (int64_t c = 0; c < k->K; c++)
            Z[i] += U[i / k->N * k->K + c] * w.v[i % k->N * k->K + c];
    near(&z, Z, "pw_fwd %lld x %d -> %d, cap %g%s%s", (long long)k->rows, k->K,
         k->N, k->cap, k->has_norm ? "" : ", plain",
         k->has_skip ? ", skip" : "");
    if (k->rows > 1)
        check_leaves(&l, z.v, k->rows, k->N, "pw_fwd");
    free(U);
    free(Z);
    leaves_drop(&l);
    side_drop(&in);
    tensor_drop(&x);
    tensor_drop(&skip);
    tensor_drop(&y);
    tensor_drop(&w);
    tensor_drop(&z);
}

static void pw_backward(struct bed *b, const struct pw *k)
{
    const int64_t rows = k->rows, K = k->K, N = k->N;
    struct tensor x = tensor_make(b, rows * K, -2, 2);
    struct tensor u = tensor_make(b, rows * K, -2, 2);
    struct tensor extra = tensor_make(b, rows * K, -1, 1);
    struct tensor dx = tensor_make(b, rows * K, 5, 6);
    struct tensor w = tensor_make(b, N * K, -1, 1);
    struct tensor dw = tensor_make(b, N * K, 5, 6);
    struct tensor z = tensor_make(b, rows * N, -2, 2);
    struct tensor dn = tensor_make(b, rows * N, -1, 1);
    struct tensor sums = tensor_acc(b, 2 * N, -1, 1);
    struct side in = side_make(b, k->K, k->cap), mine = side_make(b, k->N, 6);
    struct grads g = grads_make(b, k->K);
    struct norm nx = side_norm(&in), nz = side_norm(&mine);
    struct norm_grad out = grads_out(&g);
    double *dz = dz_of(&mine, dn.v, z.v, sums.v, rows, k->N);
    double *DW = zeros(N * K), *DX = zeros(rows * K);

    for (int64_t i = 0; i < rows * K; i++) {
        double v = k->keeps_y ? u.v[i] : u_of(&in, i % K, x.v[i]);
        for (int64_t n = 0; n < N; n++) {
            DW[n * K + i % K] += dz[i / K * N + n] * v;
            DX[i] += dz[i / K * N + n] * w.v[n * K + i % K];
        }
        DX[i] += k->has_skip ? extra.v[i] : 0;
    }
    must(b->d->ops->pw_bwd(b->d, b->dt, dx.p, dw.p, &out, dn.p, z.p, &nz,
                           sums.p, k->keeps_y ? u.p : NULL, x.p, &nx,
                           k->has_skip ? extra.p : NULL, w.p, rows, k->K, k->N,
                           ERR));
    near(&dw, DW, "pw_bwd %lld x %d -> %d: dw", (long long)rows, k->K, k->N);
    check_grads(&g, &in, x.v, DX, rows, k->K, "pw_bwd");
    near(&dx, DX, "pw_bwd: dx, cap %g%s", k->cap, k->has_skip ? ", skip" : "");
    /* The stem: no gradient of the input. */
    must(b->d->ops->pw_bwd(b->d, b->dt, NULL, dw.p, NULL, dn.p, z.p, &nz,
                           sums.p, u.p, NULL, NULL, NULL, w.p, rows, k->K, k->N,
                           ERR));
    for (int64_t i = 0; i < N * K; i++)
        DW[i] = 0;
    for (int64_t i = 0; i < rows * K; i++)
        for (int64_t n = 0; n < N; n++)
            DW[n * K + i % K] += dz[i / K * N + n] * u.v[i];
    near(&dw, DW, "pw_bwd without dx: dw");
    free(dz);
    free(DW);
    free(DX);
    grads_drop(&g);
    side_drop(&in);
    side_drop(&mine);
    tensor_drop(&x);
    tensor_drop(&u);
    tensor_drop(&extra);
    tensor_drop(&dx);
    tensor_drop(&w);
    tensor_drop(&dw);
    tensor_drop(&z);
    tensor_drop(&dn);
    tensor_drop(&sums);
}

/* ---- depthwise ------------------------------------------------------------
 */
struct dw {
    struct conv3 s;
    bool has_norm;
    int64_t nx, ny;
};

/* visit(arg, output, input, tap) for every product of the definition. */
static void dw_visit(const struct dw *k,
                     void (*visit)(void *arg, int64_t o, int64_t i, int64_t w),
                     void *arg)
{
    const struct conv3 *s = &k->s;
    for (int64_t i = 0; i < k->ny * 9; i++) {
        int64_t c = i % s->C, tap = i / s->C % 9, pixel = i / s->C / 9;
        int64_t ow = pixel % s->OW, oh = pixel / s->OW % s->OH;
        int64_t n = pixel / s->OW / s->OH;
        int64_t ih = oh * s->stride + tap / 3 - 1;
        int64_t iw = ow * s->stride + tap % 3 - 1;
        if (ih >= 0 && ih < s->H && iw >= 0 && iw < s->W)
            visit(arg, pixel * s->C + c,
                  ((n * s->H + ih) * s->W + iw) * s->C + c, tap * s->C + c);
    }
}

struct dw_sums {
    const double *u, *w, *dz;
    double *z, *dx, *dw;
};

static void dw_one(void *arg, int64_t o, int64_t i, int64_t w)
{
    struct dw_sums *a = arg;
    if (a->z)
        a->z[o] += a->u[i] * a->w[w];
    if (a->dx) {
        a->dx[i] += a->dz[o] * a->w[w];
        a->dw[w] += a->dz[o] * a->u[i];
    }
}

static void dw_both(struct bed *b, int32_t N, int32_t H, int32_t W, int32_t C,
                    int32_t stride, bool has_norm)
{
    struct dw k = {
        .s = {N, H, W, C, (H - 1) / stride + 1, (W - 1) / stride + 1, stride},
        .has_norm = has_norm};
    k.nx = (int64_t)N * H * W * C;
    k.ny = (int64_t)N * k.s.OH * k.s.OW * C;
    const int64_t rows = k.ny / C;
    struct tensor x = tensor_make(b, k.nx, -2, 2);
    struct tensor w = tensor_make(b, (int64_t)9 * C, -1, 1);
    struct tensor z = tensor_make(b, k.ny, 5, 6);
    struct tensor dn = tensor_make(b, k.ny, -1, 1);
    struct tensor dx = tensor_make(b, k.nx, 5, 6);
    struct tensor dw = tensor_make(b, (int64_t)9 * C, 5, 6);
    struct tensor sums = tensor_acc(b, (int64_t)2 * C, -1, 1);
    struct side in = side_make(b, C, 6), mine = side_make(b, C, 6);
    struct leaves l = leaves_make(b, C);
    struct grads g = grads_make(b, C);
    struct norm nx = side_norm(&in), nz = side_norm(&mine);
    struct norm_stats stats = leaves_stats(&l);
    struct norm_grad out = grads_out(&g);
    double *U = zeros(k.nx), *Z = zeros(k.ny);
    double *DX = zeros(k.nx), *DW = zeros((int64_t)9 * C);
    char what[80];

    (void)snprintf(what, sizeof(what), "[%d,%d,%d,%d] /%d%s", N, H, W, C,
                   stride, has_norm ? "" : ", plain");
    for (int64_t i = 0; i < k.nx; i++)
        U[i] = has_norm ? u_of(&in, i % C, x.v[i]) : x.v[i];
    struct dw_sums a = {.u = U, .w = w.v, .z = Z};
    dw_visit(&k, dw_one, &a);
    must(b->d->ops->dw_fwd(b->d, b->dt, z.p, rows > 1 ? &stats : NULL, x.p,
                           has_norm ? &nx : NULL, w.p, &k.s, ERR));
    near(&z, Z, "dw_fwd %s", what);
    if (rows > 1)
        check_leaves(&l, z.v, rows, C, "dw_fwd");
    double *dz = dz_of(&mine, dn.v, z.v, sums.v, rows, C);
    a = (struct dw_sums){.u = U, .w = w.v, .dz = dz, .dx = DX, .dw = DW};
    dw_visit(&k, dw_one, &a);
    must(b->d->ops->dw_bwd(b->d, b->dt, dx.p, dw.p, has_norm ? &out : NULL,
                           dn.p, z.p, &nz, sums.p, x.p, has_norm ? &nx : NULL,
                           w.p, &k.s, ERR));
    near(&dw, DW, "dw_bwd %s: dw", what);
    if (has_norm)
        check_grads(&g, &in, x.v, DX, k.nx / C, C, "dw_bwd");
    near(&dx, DX, "dw_bwd: dx");
    free(dz);
    free(U);
    free(Z);
    free(DX);
    free(DW);
    leaves_drop(&l);
    grads_drop(&g);
    side_drop(&in);
    side_drop(&mine);
    tensor_drop(&x);
    tensor_drop(&w);
    tensor_drop(&z);
    tensor_drop(&dn);
    tensor_drop(&dx);
    tensor_drop(&dw);
    tensor_drop(&sums);
}

void contract_fused(struct bed *b)
{
    static const struct pw cases[] = {
        {50, 3, 5, true, false, false, 6},
        {1, 8, 16, true, false, false, 6},
        {147, 24, 40, false, false, false, 0},
        {98, 16, 8, true, true, true, 0},
        {300, 32, 16, true, false, false, 6},
        {7, 5, 3, true, true, true, 0},
        /* More rows and columns than a tile of a GPU's product has; a skip of
         * a clamped input, which the library gets there. */
        {150, 104, 112, true, true, true, 6},
        {33, 232, 104, true, false, false, 0},
    };
    static const struct pw large[] = {
        {5000, 96, 24, true, false, false, 6},
        {1001, 33, 65, true, true, true, 0},
        {9, 320, 1280, true, false, true, 0},
    };
    static const struct pw groups[] = {
        /* More columns than a block of a GPU has. */
        {70, 104, 136, true, true, true, 0},
        /* More rows than a lane sums at once. */
        {900, 8, 64, true, false, false, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        pw_forward(b, &cases[i]);
        pw_backward(b, &cases[i]);
    }
    for (int32_t stride = 1; stride <= 2; stride++) {
        dw_both(b, 1, 5, 7, 3, stride, true);
        dw_both(b, 2, 8, 8, 16, stride, true);
        dw_both(b, 1, 1, 1, 8, stride, true);
        dw_both(b, 1, 2, 1, 5, stride, true);
        dw_both(b, 3, 9, 6, 12, stride, false);
        /* Narrow, and wider than what is summed at once. */
        dw_both(b, 1, 3, 2, 16, stride, true);
        dw_both(b, 2, 4, 3, 8, stride, true);
        dw_both(b, 1, 3, 70, 8, stride, true);
        if (b->small)
            continue;
        dw_both(b, 2, 15, 14, 32, stride, true);
        dw_both(b, 1, 7, 7, 961, stride, true);
        dw_both(b, 9, 16, 16, 24, stride, true);
    }
    for (size_t i = 0; !b->small && i < sizeof(large) / sizeof(large[0]); i++) {
        pw_forward(b, &large[i]);
        pw_backward(b, &large[i]);
    }
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        pw_forward(b, &groups[i]);
        pw_backward(b, &groups[i]);
    }
}
