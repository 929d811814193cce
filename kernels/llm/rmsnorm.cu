/* rmsnorm.cu - RMSNorm with the residual addition before it, and its gradient.
 *
 * A block takes a row at a time: its first pass over the row sums the squares,
 * the second one writes. The row is in the nearest cache by then. The squares
 * are those of h as it is stored, because the backward pass reads that.
 *
 * Both passes compute y as (h * rstd) * w, so that the backward pass writes the
 * same y again.
 *
 * The gradient of w sums over rows (exec_columns.h) and runs before the
 * gradient of h, which may overwrite dy.
 *
 * src  Zhang and Sennrich 2019, arXiv:1910.07467, section 4 */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

template <class T, int W>
KERNEL rms_rows(blk b, T *y, single<acc<T>> rstd, T *h, const T *x,
                const T *delta, const T *w, int64_t rows, int64_t C, acc<T> eps)
{
    typedef acc<T> A;
    typedef vec<A, W> V;

    for (int64_t r : b.share(rows)) {
        const int64_t at = r * C;
        const T *in = (h ? h : x) + at;
        V squares = V::of(0);

        for (int64_t i : b.lanes(C, W)) {
            V v = V::load(x + at + i);
            if (delta)
                v += V::load(delta + at + i);
            if (h) {
                v.store(h + at + i);
                v = V::load(h + at + i);
            }
            squares += v * v;
        }
        const A k = 1 / sqrt(b.sum(squares.total()) / (A)C + eps);
        for (int64_t i : b.lanes(C, W))
            (V::load(in + i) * k * V::load(w + i)).store(y + at + i);
        if (rstd.at && b.lane() == 0)
            rstd.at[r] = k;
    }
}

template <class T, int W>
KERNEL grad_rows(blk b, T *dx, T *y, const T *dy, const T *h,
                 single<const acc<T>> rstd, const T *w, const T *extra,
                 int64_t rows, int64_t C)
{
    typedef acc<T> A;
    typedef vec<A, W> V;

    for (int64_t r : b.share(rows)) {
        const int64_t at = r * C;
        const A k = rstd.at[r];
        V along = V::of(0);

        for (int64_t i : b.lanes(C, W))
            along += V::load(w + i) * V::load(dy + at + i) *
                     (V::load(h + at + i) * k);
        const A mean = b.sum(along.total()) / (A)C;
        for (int64_t i : b.lanes(C, W)) {
            const V hat = V::load(h + at + i) * k, by = V::load(w + i);
            V g = (by * V::load(dy + at + i) - hat * mean) * k;
            if (extra)
                g += V::load(extra + at + i);
            g.store(dx + at + i);
            if (y)
                (hat * by).store(y + at + i);
        }
    }
}

/* What a lane holds of a row before it adds it to the sums for dw. */
template <class T, int W> struct weight_terms {
    typename vec<acc<T>, W>::template raw<T> dy, h;
    acc<T> rstd;
};

template <class T, int W>
KERNEL weight_sums(blk b, double *part, const T *dy, const T *h,
                   single<const acc<T>> rstd, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;
    typedef weight_terms<T, W> terms;

    columns<T, W, 1>(b, part, rows, C, SUM_ROWS, true, [=](int64_t c) {
        return by_row<8>(
            [=](int64_t r) {
                return terms{V::hold(dy + r * C + c), V::hold(h + r * C + c),
                             rstd.at[r]};
            },
            [=](V *s, int64_t, const terms &m) {
                s[0] += V::open(m.dy) * (V::open(m.h) * m.rstd);
            });
    });
}

template <class T>
int rmsnorm_fwd(struct device *d, void *y, void *rstd, void *h, const void *x,
                const void *delta, const void *w, int64_t rows, int32_t C,
                double eps, struct error *err)
{
    typedef acc<T> A;
    int64_t c = C;

    if (rows < 0 || C < 1 || !(eps >= 0))
        return error_set(err, ERR_INVAL, "RMSNorm: rows %lld, C %d, eps %g",
                         (long long)rows, (int)C, eps);
    if (delta && !h)
        return error_set(err, ERR_INVAL,
                         "RMSNorm: a delta, but no room for the sum h");
    if (h == x && !delta)
        h = nullptr;
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), rms_rows, (T *)y,
                single<A>{(A *)rstd}, (T *)h, (const T *)x, (const T *)delta,
                (const T *)w, rows, c, (A)eps);
    return finish(d, "RMSNorm", err);
}

template <class T>
int weight_grad(struct device *d, T *dw, const T *dy, const T *h,
                single<const acc<T>> rstd, int64_t rows, int64_t C,
                struct error *err)
{
    const int64_t some = parts_for(d, rows * C, rows);
    const int64_t parts = some > 0 ? some : 1; /* no rows: zeros */
    double *part = scratch<double>(d, parts * C, err);

    if (!part)
        return -1;
    LAUNCH_ROWS(C, parts, weight_sums, part, dy, h, rstd, rows, C);
    launch(d, fold_blocks(d, C), fold<T>, dw, (const double *)part, parts, C);
    return 0;
}

template <class T>
int rmsnorm_bwd(struct device *d, void *dx, void *dw, void *y, const void *dy,
                const void *h, const void *rstd, const void *w,
                const void *extra, int64_t rows, int32_t C, struct error *err)
{
    const single<const acc<T>> k = {(const acc<T> *)rstd};
    int64_t c = C;

    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "RMSNorm's gradient: rows %lld, C %d",
                         (long long)rows, (int)C);
    if (dw && weight_grad(d, (T *)dw, (const T *)dy, (const T *)h, k, rows, c,
                          err) < 0)
        return -1;
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), grad_rows, (T *)dx, (T *)y,
                (const T *)dy, (const T *)h, k, (const T *)w, (const T *)extra,
                rows, c);
    return finish(d, "RMSNorm's gradient", err);
}

} // namespace

FAMILY(rmsnorm)
{
    ops->llm.rmsnorm_fwd = BY_TYPE(rmsnorm_fwd);
    ops->llm.rmsnorm_bwd = BY_TYPE(rmsnorm_bwd);
}
