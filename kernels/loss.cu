/* loss.cu - softmax cross-entropy, its gradient written over the logits.
 *
 * loss = log(sum exp(z)) - z[label], with the largest logit taken out first
 * so that exp() cannot overflow; d(loss)/dz = softmax(z) - onehot(label).
 */
#include "kernels/exec_launch.h"

namespace
{

template <class T, int W>
KERNEL softmax_loss(blk b, acc<T> *loss, int32_t *hit, T *z,
                    const int32_t *label, int64_t rows, int64_t C,
                    acc<T> scale, int grad)
{
    typedef acc<T> A;
    typedef vec<A, W> V;

    for (int64_t r : b.share(rows)) {
        T *row = z + r * C;
        const int32_t t = label[r];
        const bool in = t >= 0 && t < C;

        V m = V::of(-INFINITY), s = V::of(0);
        for (int64_t i : b.lanes(C, W))
            m = vmax(m, V::load(row + i));
        const A top = b.max(m.largest());
        for (int64_t i : b.lanes(C, W))
            s += vexp(V::load(row + i) - top);
        const A sum = b.sum(s.total());

        /* The first of the largest wins, so that a row of equal logits is
         * a hit for one label and not for all. */
        const A at = in ? (A)row[t] : 0;
        A before = 0;
        for (int64_t i : b.lanes(in ? t : 0))
            before += (A)row[i] == top ? 1 : 0;
        before = b.sum(before); /* also: all have read the row */

        if (b.lane() == 0) {
            loss[r] = in ? log(sum) + top - at : t < 0 ? A(0) : A(NAN);
            hit[r] = in && at == top && before == 0;
        }
        if (!grad)
            continue;
        const A k = in ? scale / sum : t < 0 ? A(0) : A(NAN);
        for (int64_t i : b.lanes(C, W))
            (t < 0 ? V::of(0) : vexp(V::load(row + i) - top) * k)
                .store(row + i);
        b.sync();
        if (in && b.lane() == 0)
            row[t] = (T)(exp(at - top) * k - scale);
    }
}

template <class T>
int xent(struct device *d, void *loss, int32_t *hit, void *z,
         const int32_t *label, int64_t rows, int32_t C, double scale, bool grad,
         struct error *err)
{
    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "xent: rows %lld, C %d",
                         (long long)rows, (int)C);
    LAUNCH_ROWS(C, blocks(d, rows * C * 16, rows), softmax_loss,
                (acc<T> *)loss, hit, (T *)z, label, rows, (int64_t)C,
                (acc<T>)scale, (int)grad);
    return finish(d, "xent", err);
}

} // namespace

FAMILY(loss)
{
    ops->xent = BY_TYPE(xent);
}
