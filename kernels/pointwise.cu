/* pointwise.cu - 1x1 convolution with the norms around it: a matrix product
 * over pixels whose input is normalised on the way in and whose output is
 * summed on the way out, chunk by chunk (exec_norm.h).
 */
#include "kernels/exec_norm.h"

namespace
{

template <class T>
constexpr enum dtype dtype_of = sizeof(T) == sizeof(double) ? DT_F64 : DT_F32;

/* Rows of u that lie `apart`, gathered: what the origin is made from. */
template <class T, int W>
KERNEL sample(blk b, T *u, const T *x, const T *skip, norm_of<T> n,
              int64_t rows, int64_t apart, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(C / W)) {
            int64_t i = r * apart * C + t * W;
            V v = V::load(x + i);
            if (n.mean)
                v = norm_cols<T, W>(n, t * W).u(v);
            if (skip)
                v += V::load(skip + i);
            v.store(u + r * C + t * W);
        }
}

int check(const char *op, int64_t rows, int64_t least, int32_t K, int32_t N,
          struct error *err)
{
    if (rows < least || rows > INT32_MAX || K < 1 || N < 1)
        return error_set(err, ERR_INVAL, "%s: [%lld, %d] to %d channels", op,
                         (long long)rows, (int)K, (int)N);
    return 0;
}

template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N,
           struct error *err)
{
    typedef acc<T> A;
    const int64_t k = K, n = N;
    const norm_of<T> norm(in);
    const bool plain = !in && !skip;
    const T *X = (const T *)x, *S = (const T *)skip;

    if (check("pw_fwd", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const chunks all(d, rows, k + n);
    const int64_t few = origin_rows(rows), parts = all.all_parts();
    /* Sums that are taken with z still in the cache need their origin before
     * z is there: from a few rows, made first. Where all of z stays in the
     * cache, or on a GPU, they are taken in the end. */
    const bool early = stats && all.most < rows;
    const int64_t room = plain || y ? few : all.slots * all.most;
    double *part = scratch<double>(d, 2 * parts * n + doubles<A>(n) +
                                          doubles<T>(few * n) +
                                          doubles<T>((room + few) * k),
                                   err);
    if (!part)
        return -1;
    A *origin = (A *)(part + 2 * parts * n);
    T *few_z = (T *)((double *)origin + doubles<A>(n));
    T *us = (T *)((double *)few_z + doubles<T>(few * n));
    if (stats)
        launch(d, blocks(d, 2 * parts * n), clear<double>, part,
               2 * parts * n);
    if (early) {
        LAUNCH_ROWS(k, blocks(d, few * k, few), sample, us, X, S, norm, few,
                    rows / few, k);
        if (d->ops->gemm(d, dtype_of<T>, false, true, (int32_t)few, N, K, 1,
                         us, K, w, K, 0, few_z, N, err) < 0)
            return -1;
        launch(d, blocks(d, few * n, n), norm_origin<T>, origin,
               (const T *)few_z, few, (int64_t)1, n);
    }
    int rc = all.each([&](chunk c) {
        const T *u = X + c.lo * k;
        T *zc = (T *)z + c.lo * n;
        if (!plain) {
            T *to = y ? (T *)y + c.lo * k : us + c.slot * all.most * k;
            LAUNCH_ROWS(k, all.grid(c.rows * k, c.rows), norm_rows, to, u,
                        S ? S + c.lo * k : S, norm, c.rows, k);
            u = to;
        }
        if (d->ops->gemm(d, dtype_of<T>, false, true, (int32_t)c.rows, N, K, 1,
                         u, K, w, K, 0, zc, N, NULL) < 0)
            return -1;
        if (early)
            LAUNCH_ROWS(n, all.parts, norm_sums,
                        part + c.slot * all.parts * 2 * n, (const T *)zc,
                        (const A *)origin, c.rows, n);
        return 0;
    });
    if (rc < 0)
        return error_set(err, ERR_EXTERN, "pw_fwd: GEMM");
    if (stats && !early) {
        launch(d, blocks(d, few * n, n), norm_origin<T>, origin, (const T *)z,
               few, rows / few, n);
        LAUNCH_ROWS(n, parts, norm_sums, part, (const T *)z, (const A *)origin,
                    rows, n);
    }
    if (stats)
        launch(d, blocks(d, n), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, parts, rows, n);
    return finish(d, "pw_fwd", err);
}

/* The slots' weight gradients, in order; in A's precision. */
template <class T>
KERNEL add_slots(blk b, T *dw, const T *part, int64_t slots, int64_t n)
{
    for (int64_t i : b.each(n)) {
        acc<T> s = (acc<T>)part[i];
        for (int64_t k = 1; k < slots; k++)
            s += (acc<T>)part[k * n + i];
        dw[i] = (T)s;
    }
}

template <class T>
int pw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
           const void *dn, const void *z, const struct norm *norm,
           const void *sums, const void *u, const void *x,
           const struct norm *in, const void *extra, const void *w,
           int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    const int64_t k = K, n = N;
    const norm_of<T> nz(norm), nx(in);
    const bool gates = dx && out && in;
    const A inv = 1 / (A)rows;

    if (check("pw_bwd", rows, 1, K, N, err) < 0)
        return -1;
    const chunks all(d, rows, k + n);
    const int64_t parts = all.all_parts();
    double *part = scratch<double>(
        d, 2 * parts * k + doubles<T>(all.slots > 1 ? all.slots * n * k : 0) +
               doubles<T>(all.slots * all.most * n) +
               doubles<T>(u ? 0 : all.slots * all.most * k),
        err);
    if (!part)
        return -1;
    T *dws = all.slots > 1 ? (T *)(part + 2 * parts * k) : (T *)dw;
    T *dzs = (T *)(part + 2 * parts * k +
                   doubles<T>(all.slots > 1 ? all.slots * n * k : 0));
    T *us = (T *)((double *)dzs + doubles<T>(all.slots * all.most * n));
    launch(d, blocks(d, 2 * parts * k), clear<double>, part, 2 * parts * k);
    int rc = all.each([&](chunk c) {
        T *dz = dzs + c.slot * all.most * n;
        const T *xc = (const T *)x + c.lo * k, *uc = (const T *)u + c.lo * k;
        LAUNCH_ROWS(n, all.grid(c.rows * n, c.rows), norm_dz, dz,
                    (const T *)dn + c.lo * n, (const T *)z + c.lo * n, nz,
                    (const A *)sums, inv, c.rows, n);
        if (!u) {
            T *to = us + c.slot * all.most * k;
            LAUNCH_ROWS(k, all.grid(c.rows * k, c.rows), norm_rows, to, xc,
                        (const T *)nullptr, nx, c.rows, k);
            uc = to;
        }
        if (d->ops->gemm(d, dtype_of<T>, true, false, N, K, (int32_t)c.rows, 1,
                         dz, N, uc, K, c.first ? 0 : 1, dws + c.slot * n * k, K,
                         NULL) < 0)
            return -1;
        if (!dx)
            return 0;
        T *dxc = (T *)dx + c.lo * k;
        if (d->ops->gemm(d, dtype_of<T>, false, false, (int32_t)c.rows, K, N,
                         1, dz, N, w, K, 0, dxc, K, NULL) < 0)
            return -1;
        const T *ec = extra ? (const T *)extra + c.lo * k : nullptr;
        if (gates)
            LAUNCH_ROWS(k, all.parts, norm_gate,
                        part + c.slot * all.parts * 2 * k, dxc, ec, xc, nx,
                        c.rows, k);
        else if (ec)
            LAUNCH_ROWS(k, all.grid(c.rows * k, c.rows), norm_rows, dxc,
                        (const T *)dxc, ec, norm_of<T>(nullptr), c.rows, k);
        return 0;
    });
    if (rc < 0)
        return error_set(err, ERR_EXTERN, "pw_bwd: GEMM");
    if (all.slots > 1)
        launch(d, blocks(d, n * k), add_slots<T>, (T *)dw, (const T *)dws,
               all.slots, n * k);
    if (gates)
        launch(d, blocks(d, 2 * k), norm_fold<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)part, parts,
               k);
    return finish(d, "pw_bwd", err);
}

} // namespace

FAMILY(pointwise)
{
    ops->pw_fwd = BY_TYPE(pw_fwd);
    ops->pw_bwd = BY_TYPE(pw_bwd);
}
