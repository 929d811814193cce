/* simd_turn.h - rows to columns, a square of vectors at a time, for the host.
 *
 * One value at a time this takes some ten times longer. */
#ifndef MGPU_KERNELS_EXEC_SIMD_TURN_H
#define MGPU_KERNELS_EXEC_SIMD_TURN_H

#include "kernels/exec/exec.h"

namespace
{

/* The numbers 0 to N - 1 as a pack. */
template <int... K> struct places {
};
template <int N, int... K> struct places_to : places_to<N - 1, N - 1, K...> {
};
template <int... K> struct places_to<0, K...> {
    typedef places<K...> all;
};

/* Of each square of 2 H by 2 H, the quarters beside the diagonal change places;
 * a and b are rows H apart. The compiler makes two shuffles of it. */
template <int H, class S, int... K>
FN void swap_quarters(S &a, S &b, places<K...>)
{
    const S x = a, y = b;

    a = S{(K & H ? y[K & H ? K - H : K] : x[K])...};
    b = S{(K & H ? y[K] : x[K & H ? K : K + H])...};
}

/* W vectors of W values: rows become columns. */
template <class A, int W, int H = 1> FN void turn_square(vec<A, W> (&r)[W])
{
    if constexpr (H < W) {
        typedef typename places_to<W>::all all;
        UNROLL for (int i = 0; i < W; i++) if (!(i & H))
            swap_quarters<H>(r[i].v, r[i + H].v, all());
        turn_square<A, W, 2 * H>(r);
    }
}

/* to [D, ld_to] = scale * x^T of n rows. */
template <class A, int W, class T>
FN void turn_rows(A *to, int64_t ld_to, const T *x, int64_t ld, int64_t n,
                  int64_t D, A scale)
{
    typedef vec<A, W> V;
    const int64_t whole = W > 1 ? n / W * W : 0, cols = W > 1 ? D / W * W : 0;

    for (int64_t i = 0; i < whole; i += W)
        for (int64_t d = 0; d < cols; d += W) {
            V r[W];
            UNROLL for (int k = 0; k < W; k++) r[k] =
                V::load(x + (i + k) * ld + d) * scale;
            turn_square(r);
            UNROLL for (int k = 0; k < W; k++) r[k].store(to + (d + k) * ld_to +
                                                          i);
        }
    if constexpr (W > 4)
        if (D - cols >= W / 2)
            turn_rows<A, W / 2>(to + cols * ld_to, ld_to, x + cols, ld, whole,
                                (D - cols) / (W / 2) * (W / 2), scale);
    const int64_t left = W > 4 ? cols + (D - cols) / (W / 2) * (W / 2) : cols;
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = i < whole ? left : 0; d < D; d++)
            to[d * ld_to + i] = (A)x[i * ld + d] * scale;
}

/* n rows of `to` = (x [D, ld_x])^T, row i times by[i]; by NULL: 1. */
template <class A, int W, class T>
FN void turn_back(T *to, int64_t ld, const A *x, int64_t ld_x, int64_t n,
                  int64_t D, const A *by)
{
    typedef vec<A, W> V;
    const int64_t whole = W > 1 ? n / W * W : 0, cols = W > 1 ? D / W * W : 0;

    for (int64_t i = 0; i < whole; i += W) {
        const V f = by ? V::load(by + i) : V::of(1);
        for (int64_t d = 0; d < cols; d += W) {
            V r[W];
            UNROLL for (int k = 0; k < W; k++) r[k] =
                V::load(x + (d + k) * ld_x + i) * f;
            turn_square(r);
            UNROLL for (int k = 0; k < W; k++) r[k].store(to + (i + k) * ld +
                                                          d);
        }
    }
    if constexpr (W > 4)
        if (D - cols >= W / 2)
            turn_back<A, W / 2>(to + cols, ld, x + cols * ld_x, ld_x, whole,
                                (D - cols) / (W / 2) * (W / 2), by);
    const int64_t left = W > 4 ? cols + (D - cols) / (W / 2) * (W / 2) : cols;
    for (int64_t i = 0; i < n; i++)
        for (int64_t d = i < whole ? left : 0; d < D; d++)
            to[i * ld + d] = (T)(x[d * ld_x + i] * (by ? by[i] : A(1)));
}

} // namespace
#endif
