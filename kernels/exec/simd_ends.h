/* simd_ends.h - vectors at the end of a row whose length is no multiple of the
 * width: for the host, whose kernels then have one instance, of the widest
 * vectors. On a GPU the width divides the row (LAUNCH_ROWS). */
#ifndef MGPU_KERNELS_EXEC_SIMD_ENDS_H
#define MGPU_KERNELS_EXEC_SIMD_ENDS_H

#include "kernels/exec/exec_launch.h"

namespace
{

#ifdef EXEC_CUDA
#define LAUNCH_ENDS LAUNCH_ROWS
#else
/* Launches kernel<T, W> of the widest W on rows of n values. */
#define LAUNCH_ENDS(n, grid, kernel, ...) \
    launch(d, (grid), kernel<T, widest<T>>, __VA_ARGS__)

/* N bytes of `to`: the first n < N from p, then zeros. Reads no byte of p past
 * them. Masks where the processor has them; else pieces that halve. */
template <int N> FN void take_bytes(void *to, const void *p, int64_t n)
{
#ifdef __AVX512BW__
    const uint64_t in = ((uint64_t)1 << n) - 1;
    if constexpr (N == 64) {
        const __m512i v = _mm512_maskz_loadu_epi8(in, p);
        memcpy(to, &v, N);
        return;
    }
    if constexpr (N == 32) {
        const __m256i v = _mm256_maskz_loadu_epi8((__mmask32)in, p);
        memcpy(to, &v, N);
        return;
    }
#endif
    memset(to, 0, N);
    int64_t at = 0;
    UNROLL for (int some = N / 2; some > 0; some /= 2) if (n & some)
    {
        memcpy((char *)to + at, (const char *)p + at, some);
        at += some;
    }
}
/* The first n < N bytes of `from` to p, and none past them. */
template <int N> FN void put_bytes(void *p, const void *from, int64_t n)
{
#ifdef __AVX512BW__
    const uint64_t in = ((uint64_t)1 << n) - 1;
    if constexpr (N == 64) {
        __m512i v;
        memcpy(&v, from, N);
        _mm512_mask_storeu_epi8(p, in, v);
        return;
    }
    if constexpr (N == 32) {
        __m256i v;
        memcpy(&v, from, N);
        _mm256_mask_storeu_epi8(p, (__mmask32)in, v);
        return;
    }
#endif
    int64_t at = 0;
    UNROLL for (int some = N / 2; some > 0; some /= 2) if (n & some)
    {
        memcpy((char *)p + at, (const char *)from + at, some);
        at += some;
    }
}
#endif

/* W values at p; of fewer that are left the others are 0. */
template <class A, int W, class T>
FN vec<A, W> load_end(const T *p, [[maybe_unused]] int64_t left)
{
#ifndef EXEC_CUDA
    if (left < W) {
        T m[W];
        take_bytes<(int)sizeof(m)>(m, p, left * (int64_t)sizeof(T));
        return vec<A, W>::load(m);
    }
#endif
    return vec<A, W>::load(p);
}
/* The first `left` of v's values to p, or all. */
template <class A, int W, class T>
FN void store_end(vec<A, W> v, T *p, [[maybe_unused]] int64_t left)
{
#ifndef EXEC_CUDA
    if (left < W) {
        T m[W];
        v.store(m);
        put_bytes<(int)sizeof(m)>(p, m, left * (int64_t)sizeof(T));
        return;
    }
#endif
    v.store(p);
}

} // namespace
#endif
