/* swiglu.cu - SwiGLU on a row that holds gate and value side by side, and its
 * gradient.
 *
 * With s = 1 / (1 + exp(-g)) and silu = g * s, the gradient of silu is
 * s * (1 + g * (1 - s)). Both passes compute silu as g / (1 + exp(-g)), so that
 * the backward pass writes the same y again.
 *
 * src  Shazeer 2020, arXiv:2002.05202, equation 6 */
#include "kernels/exec/simd_ends.h"
#include "kernels/exec/simd_exp.h"

namespace
{

template <class T, int W>
KERNEL gate_rows(blk b, T *y, const T *x, int64_t rows, int64_t F)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const int64_t tiles = (F + W - 1) / W;
    const rect lay(b, tiles);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(tiles)) {
            const T *in = x + 2 * r * F + t * W;
            const int64_t left = F - t * W;
            const V g = load_end<A, W>(in, left),
                    u = load_end<A, W>(in + F, left);
            const V silu = g / (vexp_float(V::of(0) - g) + 1);
            store_end(silu * u, y + r * F + t * W, left);
        }
}

template <class T, int W>
KERNEL gate_grads(blk b, T *dx, T *y, const T *dy, const T *x, int64_t rows,
                  int64_t F)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const V one = V::of(1);
    const int64_t tiles = (F + W - 1) / W;
    const rect lay(b, tiles);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(tiles)) {
            const int64_t at = 2 * r * F + t * W, out = r * F + t * W;
            const int64_t left = F - t * W;
            const V g = load_end<A, W>(x + at, left);
            const V u = load_end<A, W>(x + at + F, left);
            const V d = load_end<A, W>(dy + out, left);
            const V below = vexp_float(V::of(0) - g) + 1;
            const V s = one / below, silu = g / below;
            store_end(d * u * (s * (one + g * (one - s))), dx + at, left);
            store_end(d * silu, dx + at + F, left);
            if (y)
                store_end(silu * u, y + out, left);
        }
}

int check(const char *op, int64_t rows, int32_t F, struct error *err)
{
    if (rows < 0 || F < 1)
        return error_set(err, ERR_INVAL, "%s: rows %lld, F %d", op,
                         (long long)rows, (int)F);
    return 0;
}

template <class T>
int swiglu_fwd(struct device *d, void *y, const void *x, int64_t rows,
               int32_t F, struct error *err)
{
    if (check("SwiGLU", rows, F, err) < 0)
        return -1;
    LAUNCH_ENDS(F, blocks(d, 2 * rows * F, rows), gate_rows, (T *)y,
                (const T *)x, rows, (int64_t)F);
    return finish(d, "SwiGLU", err);
}

template <class T>
int swiglu_bwd(struct device *d, void *dx, void *y, const void *dy,
               const void *x, int64_t rows, int32_t F, struct error *err)
{
    if (check("SwiGLU's gradient", rows, F, err) < 0)
        return -1;
    LAUNCH_ENDS(F, blocks(d, 2 * rows * F, rows), gate_grads, (T *)dx, (T *)y,
                (const T *)dy, (const T *)x, rows, (int64_t)F);
    return finish(d, "SwiGLU's gradient", err);
}

} // namespace

FAMILY(swiglu)
{
    ops->llm.swiglu_fwd = BY_TYPE(swiglu_fwd);
    ops->llm.swiglu_bwd = BY_TYPE(swiglu_bwd);
}
