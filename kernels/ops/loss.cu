/* loss.cu - softmax cross-entropy, its gradient written over the logits.
 *
 * loss = log(sum exp(z)) - sum of q * z, with the largest logit subtracted
 * first so that exp() cannot overflow; d(loss)/dz = softmax(z) - q. q is 1 at
 * the label, or with smoothing 1 - s there and s / C more everywhere.
 *
 * Of some columns alone the gradient needs the largest logit and the sum of the
 * whole row, which the loss leaves.
 *
 * src  Szegedy et al. 2016, arXiv:1512.00567, section 7 (label smoothing) */
#include "kernels/exec/exec_launch.h"
#include "kernels/exec/simd_exp.h"

namespace
{

/* Whether the exponentials of a row wait in its place for their sum. In 16 bits
 * they would be rounded; a GPU waits longer for memory than it takes to compute
 * them again. */
#ifdef EXEC_CUDA
template <class T> constexpr bool keeps_exp = false;
#else
template <class T> constexpr bool keeps_exp = sizeof(T) == sizeof(acc<T>);
#endif

/* The first v of a vector, and minus infinity behind them. */
template <class A, int W> FN vec<A, W> first_of(vec<A, W> v, int64_t n)
{
    EACH v.v[k] = k < n ? (A)v.v[k] : A(-INFINITY);
    return v;
}

template <class T, int W>
KERNEL softmax_loss(blk b, single<acc<T>> loss, single<int32_t> hit,
                    single<acc<T>> sums, T *z, single<const int32_t> label,
                    int64_t rows, int64_t C, single<const double> scale_at,
                    acc<T> smooth, int grad)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const A scale = grad ? (A)*scale_at.at : 0;

    for (int64_t r : b.share(rows)) {
        T *row = z + r * C;
        const int32_t t = label.at[r];
        const bool in = t >= 0 && t < C;

        /* The first of the largest wins, so that a row of equal logits is a hit
         * for one label only: the largest before the label, and of the rest.
         * The label's vector belongs to both. */
        const int64_t split = in ? t / W * W : 0;
        V before = V::of(-INFINITY), m = before, s = V::of(0);
        for (int64_t i : b.lanes(split, W))
            before = vmax(before, V::load(row + i));
        if (in && b.lane() == 0)
            before = vmax(before, first_of(V::load(row + split), t - split));
        for (int64_t i : b.lanes(C - split, W))
            m = vmax(m, V::load(row + split + i));
        const A ahead = b.max(before.largest());
        const A top = b.max(vmax(m, before).largest());
        const A at = in ? (A)row[t] : 0;

        /* The loss of the other logits; skipped with smooth 0, where a logit of
         * minus infinity would make it a NaN. */
        A rest = 0;
        if (smooth > 0) {
            V d = V::of(0);
            for (int64_t i : b.lanes(C, W))
                d += V::of(at) - V::load(row + i);
            rest = b.sum(d.total()) / (A)C * smooth;
        }
        for (int64_t i : b.lanes(C, W)) {
            const V e = vexp_float(V::load(row + i) - top);
            s += e;
            if (keeps_exp<T> && grad)
                e.store(row + i);
        }
        const A sum = b.sum(s.total()); /* also a barrier: all have read it */

        if (b.lane() == 0) {
            loss.at[r] = in      ? log(sum) + top - at + rest
                         : t < 0 ? A(0)
                                 : A(NAN);
            hit.at[r] = in && at == top && (t == 0 || ahead < top);
            if (sums.at) {
                sums.at[2 * r] = top;
                sums.at[2 * r + 1] = sum;
            }
        }
        if (!grad)
            continue;
        const A share = scale * smooth / (A)C;
        const A k = in ? scale / sum : t < 0 ? A(0) : A(NAN);
        for (int64_t i : b.lanes(C, W)) {
            const V x = V::load(row + i);
            const V e = keeps_exp<T> ? x : vexp_float(x - top);
            (t < 0 ? V::of(0) : e * k - share).store(row + i);
        }
        b.sync();
        if (in && b.lane() == 0)
            row[t] = (T)(exp(at - top) * k - share - scale * (1 - smooth));
    }
}

/* As above without smoothing, of the columns of a part. */
template <class T, int W>
KERNEL softmax_part(blk b, T *z, single<const acc<T>> sums,
                    single<const int32_t> label, int64_t rows, int64_t C,
                    row_part part, single<const double> scale_at)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const A scale = (A)*scale_at.at;

    for (int64_t r : b.share(rows)) {
        T *row = z + r * C;
        const int64_t t = label.at[r], own = t - part.first;
        const bool in = t >= 0 && t < part.limit;
        const bool has = in && own >= 0 && own < C;
        const A top = sums.at[2 * r], sum = sums.at[2 * r + 1];
        const A at = has ? (A)row[own] : 0;
        const A k = in ? scale / sum : t < 0 ? A(0) : A(NAN);
        b.sync(); /* all have read it */
        for (int64_t i : b.lanes(C, W))
            (t < 0 ? V::of(0) : vexp_float(V::load(row + i) - top) * k)
                .store(row + i);
        b.sync();
        if (has && b.lane() == 0)
            row[own] = (T)(exp(at - top) * k - scale);
    }
}

int check(int64_t rows, int32_t C, struct error *err)
{
    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "loss: rows %lld, C %d",
                         (long long)rows, (int)C);
    return 0;
}

template <class T>
int xent_sums(struct device *d, void *loss, int32_t *hit, void *sums,
              const void *z, const int32_t *label, int64_t rows, int32_t C,
              struct error *err)
{
    if (check(rows, C, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, rows * C * 16, rows), softmax_loss,
                single<acc<T>>{(acc<T> *)loss}, single<int32_t>{hit},
                single<acc<T>>{(acc<T> *)sums}, (T *)z,
                single<const int32_t>{label}, rows, (int64_t)C,
                single<const double>{nullptr}, (acc<T>)0, 0);
    return finish(d, "loss", err);
}

template <class T>
int xent_part(struct device *d, void *z, const void *sums, const int32_t *label,
              int64_t rows, const struct row_part *part, const double *scale,
              struct error *err)
{
    const int64_t C = part->rows;

    if (check(rows, C > INT32_MAX ? 0 : (int32_t)C, err) < 0)
        return -1;
    if (part->first < 0 || part->first + C > part->limit || !scale)
        return error_set(err, ERR_INVAL, "loss: columns %lld from %lld of %lld",
                         (long long)C, (long long)part->first,
                         (long long)part->limit);
    LAUNCH_ROWS(C, blocks(d, rows * C * 8, rows), softmax_part, (T *)z,
                single<const acc<T>>{(const acc<T> *)sums},
                single<const int32_t>{label}, rows, C, *part,
                single<const double>{scale});
    return finish(d, "loss", err);
}

template <class T>
int xent(struct device *d, void *loss, int32_t *hit, void *z,
         const int32_t *label, int64_t rows, int32_t C, const double *scale,
         double smooth, bool grad, struct error *err)
{
    if (rows < 0 || C < 1 || !(smooth >= 0 && smooth < 1) || (grad && !scale))
        return error_set(err, ERR_INVAL, "loss: rows %lld, C %d, smoothing %g",
                         (long long)rows, (int)C, smooth);
    LAUNCH_ROWS(C, blocks(d, rows * C * 16, rows), softmax_loss,
                single<acc<T>>{(acc<T> *)loss}, single<int32_t>{hit},
                single<acc<T>>{nullptr}, (T *)z, single<const int32_t>{label},
                rows, (int64_t)C, single<const double>{scale}, (acc<T>)smooth,
                (int)grad);
    return finish(d, "loss", err);
}

} // namespace

FAMILY(loss)
{
    ops->xent = BY_TYPE(xent);
    ops->llm.xent_sums = BY_TYPE(xent_sums);
    ops->llm.xent_part = BY_TYPE(xent_part);
}
