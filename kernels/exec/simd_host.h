/* simd_host.h - a SIMD register of the host, with loads and stores of any
 * storage type. */
#ifndef MGPU_KERNELS_EXEC_SIMD_HOST_H
#define MGPU_KERNELS_EXEC_SIMD_HOST_H

#include "kernels/exec/simd_types.h"

namespace
{

/* Naturally aligned, and only copied from and to memory with memcpy: a
 * reference to a vector type of reduced alignment is undefined behaviour, which
 * UBSan detects. */
template <class E, int W> struct simd {
    typedef E type __attribute__((vector_size(W * sizeof(E))));
};

template <class A, int W> struct widen {
    typedef typename simd<A, W>::type S;
    static FN S from(const A *p)
    {
        S r;
        memcpy(&r, p, sizeof(r));
        return r;
    }
    static FN void to(A *p, S v)
    {
        memcpy(p, &v, sizeof(v));
    }
    /* One value at a time, where no instruction helps. */
    template <class T> static FN S from(const T *p)
    {
        S r;
        for (int k = 0; k < W; k++)
            r[k] = (A)p[k];
        return r;
    }
    template <class T> static FN void to(T *p, S v)
    {
        for (int k = 0; k < W; k++)
            p[k] = (T)(A)v[k];
    }
    static FN S from(const bf16 *p)
    {
        typedef typename simd<uint16_t, W>::type U16;
        typedef typename simd<uint32_t, W>::type U32;
        U16 h;
        S r;
        memcpy(&h, p, sizeof(h));
        U32 u = __builtin_convertvector(h, U32) << 16;
        memcpy(&r, &u, sizeof(r));
        return r;
    }
    static FN void to(bf16 *p, S v)
    {
        typedef typename simd<uint16_t, W>::type U16;
        typedef typename simd<uint32_t, W>::type U32;
        U32 u;
        memcpy(&u, &v, sizeof(u));
        U32 r = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
        r = (u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : r;
        U16 h = __builtin_convertvector(r, U16);
        memcpy(p, &h, sizeof(h));
    }
#ifdef __F16C__
    static FN S from(const f16 *p)
    {
        S r;
#ifdef __AVX512F__
        if constexpr (W == 16) {
            __m256i h;
            memcpy(&h, p, sizeof(h));
            __m512 v = _mm512_maskz_cvtph_ps(0xffff, h);
            memcpy(&r, &v, sizeof(r));
            return r;
        }
#endif
        if constexpr (W == 8) {
            __m128i h;
            memcpy(&h, p, sizeof(h));
            __m256 v = _mm256_cvtph_ps(h);
            memcpy(&r, &v, sizeof(r));
        } else if constexpr (W == 4) {
            __m128 v = _mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p));
            memcpy(&r, &v, sizeof(r));
        } else {
            for (int k = 0; k < W; k++)
                r[k] = (float)p[k];
        }
        return r;
    }
    static FN void to(f16 *p, S r)
    {
        enum { NEAREST = _MM_FROUND_TO_NEAREST_INT };
#ifdef __AVX512F__
        if constexpr (W == 16) {
            __m512 v;
            memcpy(&v, &r, sizeof(v));
            __m256i h = _mm512_maskz_cvtps_ph(0xffff, v, NEAREST);
            memcpy(p, &h, sizeof(h));
            return;
        }
#endif
        if constexpr (W == 8) {
            __m256 v;
            memcpy(&v, &r, sizeof(v));
            __m128i h = _mm256_cvtps_ph(v, NEAREST);
            memcpy(p, &h, sizeof(h));
        } else if constexpr (W == 4) {
            __m128 v;
            memcpy(&v, &r, sizeof(v));
            _mm_storel_epi64((__m128i *)p, _mm_cvtps_ph(v, NEAREST));
        } else {
            for (int k = 0; k < W; k++)
                p[k] = (f16)(float)r[k];
        }
    }
#endif
};

} // namespace
#endif
