/* simd_exp.h - the exponential of a whole vector, for the host.
 *
 * libm computes one value after the other, some 20 times slower than a core
 * multiplies. Here exp(x) = 2^n exp(r) with n the integer nearest to
 * x / ln(2), so |r| <= ln(2) / 2 = 0.347, and exp(r) is the sum of r^i / i!
 * for i < 8 (float: the rest is below 0.347^8 / 8! = 5e-9) or i < 14 (double:
 * 0.347^14 / 14! = 4e-18). The error is below two units in the last place.
 * A result below 2^-126.5 (float; 2^-1022.5, double) is 0, one above 2^127.5
 * (2^1023.5) infinite, and a NaN stays one. On a GPU it is exp(). */
#ifndef MGPU_KERNELS_EXEC_SIMD_EXP_H
#define MGPU_KERNELS_EXEC_SIMD_EXP_H

#include "kernels/exec/exec.h"

namespace
{

#ifdef EXEC_CUDA
template <class A, int W> FN vec<A, W> vexp_fast(vec<A, W> x)
{
    return vexp(x);
}
#else

/* round: 1.5 times 2 to the bits of the fraction; added to a small number, it
 * leaves the nearest integer in the lowest bits. ln2 is high + low, and high
 * times an exponent is exact. Below least, n is the exponent of 0, and above
 * most that of infinity. */
template <class A> struct exp_of;
template <> struct exp_of<float> {
    typedef uint32_t U;
    enum { TERMS = 8 };
    static constexpr U fraction = 23, bias = 127;
    static constexpr float round = 12582912.0f, high = 0.693359375f,
                           low = -2.12194440e-4f, least = -88, most = 89;
};
template <> struct exp_of<double> {
    typedef uint64_t U;
    enum { TERMS = 14 };
    static constexpr U fraction = 52, bias = 1023;
    static constexpr double round = 6755399441055744.0,
                            high = 6.93145751953125e-1,
                            low = 1.42860682030941723212e-6, least = -709,
                            most = 710;
};

/* x, or the nearer one of two numbers; a NaN stays. Of vmax() and vmin() with
 * constants gcc makes comparisons and choices, four instructions for two. */
template <class A, int W> FN vec<A, W> between(vec<A, W> x, A lo, A hi)
{
    typedef vec<A, W> V;

#if defined(__AVX512F__)
    if constexpr (sizeof(A) * W == 64 && sizeof(A) == 4)
        return {_mm512_maskz_min_ps(
            (__mmask16)-1, V::of(hi).v,
            _mm512_maskz_max_ps((__mmask16)-1, V::of(lo).v, x.v))};
    if constexpr (sizeof(A) * W == 64 && sizeof(A) == 8)
        return {_mm512_maskz_min_pd(
            (__mmask8)-1, V::of(hi).v,
            _mm512_maskz_max_pd((__mmask8)-1, V::of(lo).v, x.v))};
#endif
#if defined(__AVX__)
    if constexpr (sizeof(A) * W == 32 && sizeof(A) == 4)
        return {_mm256_min_ps(V::of(hi).v, _mm256_max_ps(V::of(lo).v, x.v))};
    if constexpr (sizeof(A) * W == 32 && sizeof(A) == 8)
        return {_mm256_min_pd(V::of(hi).v, _mm256_max_pd(V::of(lo).v, x.v))};
#endif
    return vmin(vmax(x, V::of(lo)), V::of(hi));
}

template <class A, int W> FN vec<A, W> vexp_fast(vec<A, W> x)
{
    typedef vec<A, W> V;
    typedef exp_of<A> E;
    typedef typename simd<typename E::U, W>::type U;
    /* 1 / i! */
    static constexpr A part[] = {(A)1,
                                 (A)1,
                                 (A)(1.0 / 2),
                                 (A)(1.0 / 6),
                                 (A)(1.0 / 24),
                                 (A)(1.0 / 120),
                                 (A)(1.0 / 720),
                                 (A)(1.0 / 5040),
                                 (A)(1.0 / 40320),
                                 (A)(1.0 / 362880),
                                 (A)(1.0 / 3628800),
                                 (A)(1.0 / 39916800),
                                 (A)(1.0 / 479001600),
                                 (A)(1.0 / 6227020800)};

    x = between(x, E::least, E::most);
    const V t = x * (A)1.44269504088896340736 + E::round;
    const V n = t - E::round;
    const V r = x - n * E::high - n * E::low;
    V s = V::of(part[E::TERMS - 1]);
    UNROLL for (int i = E::TERMS - 2; i >= 0; i--) s = s * r + part[i];
    U bits;
    memcpy(&bits, &t.v, sizeof(bits));
    bits = (bits << E::fraction) + (E::bias << E::fraction);
    V scale;
    memcpy(&scale.v, &bits, sizeof(bits));
    return s * scale;
}
#endif

/* Of doubles exp() itself: their goldens hold to the last digits. */
template <class A, int W> FN vec<A, W> vexp_float(vec<A, W> x)
{
    if constexpr (sizeof(A) == sizeof(float))
        return vexp_fast(x);
    else
        return vexp(x);
}

} // namespace
#endif
