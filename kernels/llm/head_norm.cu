/* head_norm.cu - RMSNorm of each head of queries or keys, in place within the
 * rows of q, k and v, and its gradient.
 *
 * A head has 128 values: the lanes of a row of the rectangle take one together,
 * and a block as many heads as it has such rows. Lanes add their squares in
 * order, by shared memory.
 *
 * The gradient of w sums over rows as that of RMSNorm does, over the columns of
 * all heads: so the parts of a block lie there head after head, and are as many
 * parts of D columns. It runs before the gradient of x, which overwrites dy.
 *
 * src  Zhang and Sennrich 2019, arXiv:1910.07467, section 4; Qwen Team 2025,
 *      arXiv:2505.09388 (norms of queries and keys) */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

/* Where the heads of an array are. */
struct head_rows {
    int64_t ld, heads, D;
    FN int64_t at(int64_t i) const
    {
        return i / heads * ld + i % heads * D;
    }
};

/* The sum of what the lanes of a head have. Lanes of other heads, and those
 * without one, come along. */
template <class A> FN A sum_of_head(blk b, const rect &lay, A *part, A v)
{
    A sum = 0;

    part[b.lane()] = v;
    b.sync(); /* the parts are there */
    for (int k = 0; k < lay.across && lay.row < lay.down; k++)
        sum += part[lay.row * lay.across + k];
    b.sync(); /* the parts are free */
    return sum;
}

template <class T, int W>
KERNEL norm_heads(blk b, T *x, T *h, single<acc<T>> rstd, const T *w,
                  int64_t rows, int64_t heads, int64_t D, int64_t ld,
                  acc<T> eps)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const head_rows of = {ld, heads, D};
    const int64_t tiles = D / W;
    const rect lay(b, tiles);
    const range share = b.share(rows * heads);
    SHARED(A, part, MAX_LANES);

    for (int64_t first = share.lo; first < share.hi; first += lay.down) {
        const int64_t i = first + lay.row;
        const range own = i < share.hi ? lay.cols(tiles) : range{0, 0, 1};
        T *p = x + of.at(i);
        V squares = V::of(0);

        for (int64_t t : own) {
            const V v = V::load(p + t * W);
            squares += v * v;
        }
        const A sum = sum_of_head<A>(b, lay, part, squares.total());
        const A k = 1 / sqrt(sum / (A)D + eps);
        for (int64_t t : own) {
            const V v = V::load(p + t * W);
            if (h)
                v.store(h + i * D + t * W);
            (v * k * V::load(w + t * W)).store(p + t * W);
        }
        if (rstd.at && lay.col == 0 && own.lo < own.hi)
            rstd.at[i] = k;
    }
}

template <class T, int W>
KERNEL grad_heads(blk b, T *dx, const T *h, single<const acc<T>> rstd,
                  const T *w, int64_t rows, int64_t heads, int64_t D,
                  int64_t ld)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const head_rows of = {ld, heads, D};
    const int64_t tiles = D / W;
    const rect lay(b, tiles);
    const range share = b.share(rows * heads);
    SHARED(A, part, MAX_LANES);

    for (int64_t first = share.lo; first < share.hi; first += lay.down) {
        const int64_t i = first + lay.row;
        const bool in = i < share.hi;
        const range own = in ? lay.cols(tiles) : range{0, 0, 1};
        const A k = in ? rstd.at[i] : 0;
        T *p = dx + of.at(i);
        V along = V::of(0);

        for (int64_t t : own)
            along += V::load(w + t * W) * V::load(p + t * W) *
                     (V::load(h + i * D + t * W) * k);
        const A mean = sum_of_head<A>(b, lay, part, along.total()) / (A)D;
        for (int64_t t : own) {
            const V hat = V::load(h + i * D + t * W) * k;
            const V dy = V::load(p + t * W);
            ((V::load(w + t * W) * dy - hat * mean) * k).store(p + t * W);
        }
    }
}

/* What a lane holds of a row before it adds it to the sums for dw. */
template <class T, int W> struct head_terms {
    typename vec<acc<T>, W>::template raw<T> dy, h;
    acc<T> rstd;
};

/* part [blocks, heads, D] */
template <class T, int W>
KERNEL head_weight_sums(blk b, double *part, const T *dy, const T *h,
                        single<const acc<T>> rstd, int64_t rows, int64_t heads,
                        int64_t D, int64_t ld)
{
    typedef vec<acc<T>, W> V;
    typedef head_terms<T, W> terms;
    const int64_t C = heads * D;

    columns<T, W, 1>(b, part, rows, C, SUM_ROWS, true, [=](int64_t c) {
        const int64_t head = c / D;
        return by_row<8>(
            [=](int64_t r) {
                return terms{V::hold(dy + r * ld + c), V::hold(h + r * C + c),
                             rstd.at[r * heads + head]};
            },
            [=](V *s, int64_t, const terms &m) {
                s[0] += V::open(m.dy) * (V::open(m.h) * m.rstd);
            });
    });
}

int check(const char *op, int64_t rows, int32_t heads, int32_t D, int32_t ld,
          double eps, struct error *err)
{
    if (rows < 0 || heads < 1 || D < 1 || !(eps >= 0))
        return error_set(err, ERR_INVAL,
                         "%s: rows %lld, %d heads of %d, eps %g", op,
                         (long long)rows, (int)heads, (int)D, eps);
    if (ld < (int64_t)heads * D)
        return error_set(err, ERR_INVAL,
                         "%s: row stride %d, but %d heads of %d", op, (int)ld,
                         (int)heads, (int)D);
    return 0;
}

template <class T>
int norm_fwd(struct device *d, void *x, int32_t ld, void *h, void *rstd,
             const void *w, int64_t rows, int32_t heads, int32_t D, double eps,
             struct error *err)
{
    typedef acc<T> A;

    if (check("norm of heads", rows, heads, D, ld, eps, err) < 0)
        return -1;
    /* A power of two divides both exactly if it divides D | ld. */
    LAUNCH_ROWS(D | ld, blocks(d, rows * heads * D, rows * heads), norm_heads,
                (T *)x, (T *)h, single<A>{(A *)rstd}, (const T *)w, rows,
                (int64_t)heads, (int64_t)D, (int64_t)ld, (A)eps);
    return finish(d, "norm of heads", err);
}

template <class T>
int weight_grad(struct device *d, T *dw, const T *dy, const T *h,
                single<const acc<T>> rstd, int64_t rows, int64_t heads,
                int64_t D, int64_t ld, struct error *err)
{
    const int64_t C = heads * D;
    const int64_t some = parts_for(d, rows * C, rows);
    const int64_t parts = some > 0 ? some : 1; /* no rows: zeros */
    double *part = scratch<double>(d, parts * C, err);

    if (!part)
        return -1;
    LAUNCH_ROWS(D | ld, parts, head_weight_sums, part, dy, h, rstd, rows, heads,
                D, ld);
    launch(d, fold_blocks(d, D), fold<T>, dw, (const double *)part,
           parts * heads, D);
    return 0;
}

template <class T>
int norm_bwd(struct device *d, void *dx, int32_t ld, void *dw, const void *h,
             const void *rstd, const void *w, int64_t rows, int32_t heads,
             int32_t D, struct error *err)
{
    const single<const acc<T>> k = {(const acc<T> *)rstd};

    if (check("gradient of the norm of heads", rows, heads, D, ld, 0, err) < 0)
        return -1;
    if (dw && weight_grad(d, (T *)dw, (const T *)dx, (const T *)h, k, rows,
                          (int64_t)heads, (int64_t)D, (int64_t)ld, err) < 0)
        return -1;
    LAUNCH_ROWS(D | ld, blocks(d, rows * heads * D, rows * heads), grad_heads,
                (T *)dx, (const T *)h, k, (const T *)w, rows, (int64_t)heads,
                (int64_t)D, (int64_t)ld);
    return finish(d, "gradient of the norm of heads", err);
}

} // namespace

FAMILY(head_norm)
{
    ops->llm.head.norm_fwd = BY_TYPE(norm_fwd);
    ops->llm.head.norm_bwd = BY_TYPE(norm_bwd);
}
