/* pointwise.cu - 1x1 convolution fused with the norms around it: a matrix
 * product over pixels, chunk by chunk, that normalises its input and sums its
 * output (exec_norm.h). */
#include "kernels/exec/exec_mma.h"
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
#include "kernels/cv/pointwise_mma.h"

/* A forward pass, up to the sums of z by blocks: part [parts, 2, N]. */
template <class T> struct pw_call {
    typedef acc<T> A;
    struct device *d;
    T *z, *y; /* y may be NULL */
    const T *x, *skip, *w;
    norm_of<T> in;
    int64_t rows, K, N, parts;
    bool sums, plain; /* the sums are wanted; u is x */
    double *part;
    A *origin;
    T *made; /* room for u, where the library needs it */

    /* In one pass, on tensor cores. */
    int product(struct error *err)
    {
        const int64_t tall = exec_of(d)->lanes / 2;
        const int64_t few = origin_rows(rows);

        parts = parts_for(d, rows * (K + N), (rows + tall - 1) / tall);
        if (sums)
            launch(d, blocks(d, N * exec_of(d)->block_work, (N + 7) / 8),
                   pw_origin<T>, origin, x, skip, in, w, few, rows / few, K, N);
        launch(d, parts, pw_product<T>, z, sums ? part : nullptr,
               (const A *)origin, y, x, skip, in, w, rows, K, N);
        return finish(d, "1x1 convolution", err);
    }

    int library(struct error *err)
    {
        const int64_t few = origin_rows(rows);
        T *u = y ? y : made;

        parts = parts_for(d, rows * (K + N), rows);
        if (!plain || y) {
            LAUNCH_ROWS(K, blocks(d, rows * K, rows), norm_rows, u, x, skip, in,
                        rows, K);
        }
        if (d->ops->gemm(d, dtype_of<T>, false, true, (int32_t)rows, (int32_t)N,
                         (int32_t)K, 1, plain ? x : u, (int32_t)K, w,
                         (int32_t)K, 0, z, (int32_t)N, err) < 0)
            return error_wrap(err, "1x1 convolution");
        if (sums) {
            launch(d, blocks(d, few * N, N), norm_origin<T, T>, origin,
                   (const T *)z, few, rows / few, N);
            LAUNCH_ROWS(N, parts, norm_sums, part, (const T *)z,
                        (const A *)origin, rows, N);
        }
        return finish(d, "1x1 convolution", err);
    }

    static int run(void *arg, bool by_library, struct error *err)
    {
        pw_call *c = static_cast<pw_call *>(arg);

        if constexpr (sizeof(T) == 2) {
            if (!by_library)
                return c->product(err);
        }
        return c->library(err);
    }

    /* The tensor cores' way, unless the shape does not fit it or the device has
     * found the library to be faster. */
    int choose(struct error *err)
    {
        struct exec_device *e = exec_of(d);
        const uintptr_t at = bits_of(z) | bits_of(y) | bits_of(x) |
                             bits_of(skip) | bits_of(w) | bits_of(in);
        const int64_t key[WAY_KEY] = {rows, K, N, dtype_of<T>,
                                      sums + 2 * plain + 4 * (y != nullptr)};
        bool by_library = !fits_product<T>(K, N, at);

        if (!by_library && e->faster &&
            e->faster(e, key, run, this, &by_library, err) < 0)
            return -1;
        return run(this, by_library, err);
    }
};

template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;

    if (check("1x1 convolution", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const bool plain = !in && !skip;
    const int64_t most = 2 * parts_for(d, rows * ((int64_t)K + N), rows) * N;
    double *part = scratch<double>(
        d, most + doubles<A>(N) + doubles<T>(plain || y ? 0 : rows * K), err);
    if (!part)
        return -1;
    A *origin = (A *)(part + most);
    pw_call<T> c = {d,
                    (T *)z,
                    (T *)y,
                    (const T *)x,
                    (const T *)skip,
                    (const T *)w,
                    norm_of<T>(in),
                    rows,
                    K,
                    N,
                    0,
                    stats != nullptr,
                    plain,
                    part,
                    origin,
                    (T *)((double *)origin + doubles<A>(N))};
    if (c.choose(err) < 0)
        return -1;
    if (stats)
        launch(d, fold_blocks(d, N), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, c.parts, rows, N);
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
