/* batchnorm.cu - batch norm over rows = N*H*W of NHWC, with the clamp that
 * follows it in MobileNetV2 (ReLU6) done in the same pass.
 *
 * src  Ioffe, Szegedy 2015, arXiv:1502.03167, algorithm 1 and section 3
 *
 * The variance is a sum of squares about an origin near the mean, not about
 * zero, so that a column of 1000 +- 1 keeps its digits. The origin is the
 * mean of up to 16 rows spread over the batch: a power of two of them, which
 * keeps sums of small integers exact, and more than one, so that a single
 * outlier cannot be the origin.
 */
#include "kernels/exec_columns.h"
#include "kernels/exec_launch.h"

namespace
{

enum { CHUNK_ROWS = 32 };

template <class T>
KERNEL bn_origin(blk b, acc<T> *origin, const T *x, int64_t rows, int64_t C)
{
    int64_t n = 16;

    while (n > rows)
        n /= 2;
    for (int64_t c : b.each(C)) {
        acc<T> s = 0;
        for (int64_t k = 0; k < n; k++)
            s += (acc<T>)x[k * (rows / n) * C + c];
        origin[c] = s / (acc<T>)n;
    }
}

template <class T, int W>
KERNEL bn_sums(blk b, double *part, const T *x, const acc<T> *origin,
               int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(b, part, rows, C, CHUNK_ROWS,
                     [=](V *s, int64_t r, int64_t c) {
                         V d = V::load(x + r * C + c) - V::load(origin + c);
                         s[0] += d;
                         s[1] += d * d;
                     });
}

template <class T>
KERNEL bn_stats(blk b, acc<T> *mean, acc<T> *rstd, acc<T> *run_mean,
                acc<T> *run_var, const acc<T> *origin, const double *part,
                int64_t parts, int64_t rows, int64_t C, double eps,
                double momentum)
{
    for (int64_t c : b.each(C)) {
        double n = (double)rows, s = fold_at(part, parts, 2 * C, c) / n;
        double q = fold_at(part, parts, 2 * C, C + c);
        double m = (double)origin[c] + s, var = q / n - s * s;
        var = var < 0 ? 0 : var; /* rounding; a NaN stays */
        mean[c] = (acc<T>)m;
        rstd[c] = (acc<T>)(1 / sqrt(var + eps));
        run_mean[c] += (acc<T>)(momentum * (m - (double)run_mean[c]));
        run_var[c] +=
            (acc<T>)(momentum * (var * n / (n - 1) - (double)run_var[c]));
    }
}

template <class T>
KERNEL bn_rstd(blk b, acc<T> *rstd, const acc<T> *var, int64_t C, double eps)
{
    for (int64_t c : b.each(C))
        rstd[c] = (acc<T>)(1 / sqrt((double)var[c] + eps));
}

/* What W columns need. The forward and the backward pass must agree on which
 * values the clamp cut, so both take z from here. */
template <class T, int W> struct bn_cols {
    typedef vec<acc<T>, W> V;
    V mean, rstd, gamma, beta;

    FN bn_cols(const acc<T> *m, const acc<T> *r, const T *g, const T *o,
               int64_t c)
        : mean(V::load(m + c)), rstd(V::load(r + c)), gamma(V::load(g + c)),
          beta(V::load(o + c))
    {
    }
    FN V hat(const T *x) const
    {
        return (V::load(x) - mean) * rstd;
    }
    FN V z(V hat) const
    {
        return hat * gamma + beta;
    }
    /* The gradient before the clamp. */
    FN V grad(const T *dy, V hat, acc<T> cap) const
    {
        V d = V::load(dy);
        return cap > 0 ? vgate(d, z(hat), cap) : d;
    }
};

template <class T, int W>
KERNEL bn_apply(blk b, T *y, const T *x, const acc<T> *mean,
                const acc<T> *rstd, const T *gamma, const T *beta,
                int64_t rows, int64_t C, acc<T> cap)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);
    const V zero = V::of(0), top = V::of(cap);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(C / W)) {
            bn_cols<T, W> p(mean, rstd, gamma, beta, t * W);
            V z = p.z(p.hat(x + r * C + t * W));
            if (cap > 0)
                z = vmin(vmax(z, zero), top);
            z.store(y + r * C + t * W);
        }
}

/* part[block][0] = sum of d * hat = dgamma, [1] = sum of d = dbeta. */
template <class T, int W>
KERNEL bn_bwd_sums(blk b, double *part, const T *dy, const T *x,
                   const acc<T> *mean, const acc<T> *rstd, const T *gamma,
                   const T *beta, int64_t rows, int64_t C, acc<T> cap)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(b, part, rows, C, CHUNK_ROWS,
                     [=](V *s, int64_t r, int64_t c) {
                         bn_cols<T, W> p(mean, rstd, gamma, beta, c);
                         V h = p.hat(x + r * C + c);
                         V d = p.grad(dy + r * C + c, h, cap);
                         s[0] += d * h;
                         s[1] += d;
                     });
}

template <class T>
KERNEL bn_bwd_fold(blk b, acc<T> *sums, T *dgamma, T *dbeta,
                   const double *part, int64_t parts, int64_t C)
{
    for (int64_t i : b.each(2 * C)) {
        double s = fold_at(part, parts, 2 * C, i);
        sums[i] = (acc<T>)s;
        (i < C ? dgamma + i : dbeta + (i - C))[0] = (T)s;
    }
}

/* dx = gamma * rstd * (d - (hat * dgamma + dbeta) / rows) */
template <class T, int W>
KERNEL bn_bwd_apply(blk b, T *dx, const T *dy, const T *x, const acc<T> *mean,
                    const acc<T> *rstd, const T *gamma, const T *beta,
                    const acc<T> *sums, int64_t rows, int64_t C, acc<T> cap)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);
    const acc<T> inv = 1 / (acc<T>)rows;

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(C / W)) {
            int64_t c = t * W, i = r * C + c;
            bn_cols<T, W> p(mean, rstd, gamma, beta, c);
            V h = p.hat(x + i), d = p.grad(dy + i, h, cap);
            V off = h * V::load(sums + c) + V::load(sums + C + c);
            (p.gamma * p.rstd * (d - off * inv)).store(dx + i);
        }
}

int check(const char *op, int64_t rows, int64_t least, int32_t C, double cap,
          struct error *err)
{
    if (rows < least || C < 1 || !(cap >= 0))
        return error_set(err, ERR_INVAL, "%s: rows %lld, C %d, cap %g", op,
                         (long long)rows, (int)C, cap);
    return 0;
}

template <class T>
int bn_fwd(struct device *d, void *y, void *mean, void *rstd, void *run_mean,
           void *run_var, const void *x, const void *gamma, const void *beta,
           int64_t rows, int32_t C, double eps, double momentum, double cap,
           struct error *err)
{
    typedef acc<T> A;
    int64_t c = C, parts = parts_for(d, rows * c, rows);

    if (check("bn_fwd", rows, 2, C, cap, err) < 0)
        return -1;
    double *part = scratch<double>(d, (2 * parts + 1) * c, err);
    if (!part)
        return -1;
    A *origin = (A *)(part + 2 * parts * c);
    launch(d, blocks(d, 16 * c, c), bn_origin<T>, origin, (const T *)x, rows,
           c);
    LAUNCH_ROWS(c, parts, bn_sums, part, (const T *)x, (const A *)origin, rows,
                c);
    launch(d, blocks(d, c), bn_stats<T>, (A *)mean, (A *)rstd, (A *)run_mean,
           (A *)run_var, (const A *)origin, (const double *)part, parts, rows, c,
           eps, momentum);
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), bn_apply, (T *)y, (const T *)x,
                (const A *)mean, (const A *)rstd, (const T *)gamma,
                (const T *)beta, rows, c, (A)cap);
    return finish(d, "bn_fwd", err);
}

template <class T>
int bn_eval(struct device *d, void *y, const void *x, const void *run_mean,
            const void *run_var, const void *gamma, const void *beta,
            int64_t rows, int32_t C, double eps, double cap, struct error *err)
{
    typedef acc<T> A;
    int64_t c = C;

    if (check("bn_eval", rows, 1, C, cap, err) < 0)
        return -1;
    A *rstd = scratch<A>(d, c, err);
    if (!rstd)
        return -1;
    launch(d, blocks(d, c), bn_rstd<T>, rstd, (const A *)run_var, c, eps);
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), bn_apply, (T *)y, (const T *)x,
                (const A *)run_mean, (const A *)rstd, (const T *)gamma,
                (const T *)beta, rows, c, (A)cap);
    return finish(d, "bn_eval", err);
}

template <class T>
int bn_bwd(struct device *d, void *dx, void *dgamma, void *dbeta,
           const void *dy, const void *x, const void *mean, const void *rstd,
           const void *gamma, const void *beta, int64_t rows, int32_t C,
           double cap, struct error *err)
{
    typedef acc<T> A;
    int64_t c = C, parts = parts_for(d, rows * c, rows);

    if (check("bn_bwd", rows, 1, C, cap, err) < 0)
        return -1;
    double *part = scratch<double>(d, (parts + 1) * 2 * c, err);
    if (!part)
        return -1;
    A *sums = (A *)(part + parts * 2 * c);
    LAUNCH_ROWS(c, parts, bn_bwd_sums, part, (const T *)dy, (const T *)x,
                (const A *)mean, (const A *)rstd, (const T *)gamma,
                (const T *)beta, rows, c, (A)cap);
    launch(d, blocks(d, 2 * c), bn_bwd_fold<T>, sums, (T *)dgamma, (T *)dbeta,
           (const double *)part, parts, c);
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), bn_bwd_apply, (T *)dx,
                (const T *)dy, (const T *)x, (const A *)mean, (const A *)rstd,
                (const T *)gamma, (const T *)beta, (const A *)sums, rows, c,
                (A)cap);
    return finish(d, "bn_bwd", err);
}

} // namespace

FAMILY(batchnorm)
{
    ops->bn_fwd = BY_TYPE(bn_fwd);
    ops->bn_eval = BY_TYPE(bn_eval);
    ops->bn_bwd = BY_TYPE(bn_bwd);
}
