/* pointwise.cu - 1x1 convolution fused with the norms around it: a matrix
 * product over pixels, chunk by chunk, that normalises its input and sums its
 * output (exec_norm.h). */
#include "kernels/exec/exec_norm.h"

namespace
{

#ifndef EXEC_CUDA
/* Gathers rows of u at a distance of `apart`: their mean becomes the origin. */
template <class T, int W>
KERNEL sample(blk b, work<T> *u, const T *x, const T *skip, norm_of<T> n,
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
#endif

int check(const char *op, int64_t rows, int64_t least, int32_t K, int32_t N,
          struct error *err)
{
    if (rows < least || rows > INT32_MAX || K < 1 || N < 1)
        return error_set(err, ERR_INVAL,
                         "%s: %lld pixels of %d channels to %d channels; "
                         "between %lld and 2147483647 pixels are possible: "
                         "change train.batch_size or dataset.image_size",
                         op, (long long)rows, (int)K, (int)N, (long long)least);
    return 0;
}

#ifdef EXEC_CUDA
template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    const int64_t k = K, n = N, few = origin_rows(rows);

    if (check("1x1 convolution", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const bool plain = !in && !skip;
    const int64_t parts = parts_for(d, rows * (k + n), rows);
    double *part = scratch<double>(
        d,
        2 * parts * n + doubles<A>(n) + doubles<T>(plain || y ? 0 : rows * k),
        err);
    if (!part)
        return -1;
    A *origin = (A *)(part + 2 * parts * n);
    T *made = y ? (T *)y : (T *)((double *)origin + doubles<A>(n));
    const T *u = plain ? (const T *)x : made;
    if (!plain || y) {
        LAUNCH_ROWS(k, blocks(d, rows * k, rows), norm_rows, made,
                    (const T *)x, (const T *)skip, norm_of<T>(in), rows, k);
    }
    if (d->ops->gemm(d, dtype_of<T>, false, true, (int32_t)rows, N, K, 1, u, K,
                     w, K, 0, z, N, err) < 0)
        return error_wrap(err, "1x1 convolution");
    if (stats) {
        launch(d, blocks(d, few * n, n), norm_origin<T, T>, origin,
               (const T *)z, few, rows / few, n);
        LAUNCH_ROWS(n, parts, norm_sums, part, (const T *)z, (const A *)origin,
                    rows, n);
        launch(d, fold_blocks(d, n), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, parts, rows, n);
    }
    return finish(d, "1x1 convolution", err);
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
    const norm_of<T> nx(in);
    const bool gates = dx && out && in;

    if (check("1x1 convolution's gradient", rows, 1, K, N, err) < 0)
        return -1;
    const int64_t parts = parts_for(d, rows * (k + n), rows);
    double *part = scratch<double>(d,
                                   2 * parts * k + doubles<T>(rows * n) +
                                       doubles<T>(u ? 0 : rows * k),
                                   err);
    if (!part)
        return -1;
    T *dz = (T *)(part + 2 * parts * k);
    T *made = (T *)((double *)dz + doubles<T>(rows * n));
    LAUNCH_ROWS(n, blocks(d, rows * n, rows), norm_dz, dz, (const T *)dn,
                (const T *)z, norm_of<T>(norm), (const A *)sums, 1 / (A)rows,
                rows, n);
    if (!u)
        LAUNCH_ROWS(k, blocks(d, rows * k, rows), norm_rows, made,
                    (const T *)x, (const T *)nullptr, nx, rows, k);
    if (d->ops->gemm(d, dtype_of<T>, true, false, N, K, (int32_t)rows, 1, dz,
                     N, u ? u : made, K, 0, dw, K, err) < 0)
        return error_wrap(err, "1x1 convolution's gradient");
    if (!dx)
        return finish(d, "1x1 convolution's gradient", err);
    if (d->ops->gemm(d, dtype_of<T>, false, false, (int32_t)rows, K, N, 1, dz,
                     N, w, K, 0, dx, K, err) < 0)
        return error_wrap(err, "1x1 convolution's gradient");
    if (gates) {
        LAUNCH_ROWS(k, parts, norm_gate, part, (T *)dx, (const T *)extra,
                    (const T *)x, nx, rows, k);
        launch(d, fold_blocks(d, 2 * k), norm_fold<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)part, parts,
               k);
    } else if (extra) {
        LAUNCH_ROWS(k, blocks(d, rows * k, rows), norm_rows, (T *)dx,
                    (const T *)dx, (const T *)extra, norm_of<T>(nullptr), rows,
                    k);
    }
    return finish(d, "1x1 convolution's gradient", err);
}
#endif

} // namespace

#ifndef EXEC_CUDA
#include "kernels/cv/pointwise_rows.h"
#endif

FAMILY(pointwise)
{
    ops->pw_fwd = BY_TYPE(pw_fwd);
    ops->pw_bwd = BY_TYPE(pw_bwd);
}
