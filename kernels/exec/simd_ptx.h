/* simd_ptx.h - where nvcc does not find the instruction by itself.
 *
 * Included by simd.h, within its namespace. */
#ifndef MGPU_KERNELS_EXEC_SIMD_PTX_H
#define MGPU_KERNELS_EXEC_SIMD_PTX_H

/* A NaN on the left stays one. x and y are numbers, or the host's vectors. */
template <class X> FN X larger_of(X x, X y)
{
    return x < y ? y : x;
}
template <class X> FN X smaller_of(X x, X y)
{
    return x > y ? y : x;
}

#ifdef __CUDACC__

/* x in a register: a loop that reads it does not make it again each time. */
template <class X> FN X keep(X x)
{
    return x;
}
template <class X> FN X *keep(X *x)
{
    asm volatile("" : "+l"(x));
    return x;
}
FN float keep(float x)
{
    asm volatile("" : "+f"(x));
    return x;
}
FN int keep(int x)
{
    asm volatile("" : "+r"(x));
    return x;
}

/* One instruction in place of a comparison and a choice, and a NaN stays. */
#if __CUDA_ARCH__ >= 800
FN float larger_of(float x, float y)
{
    float r;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
FN float smaller_of(float x, float y)
{
    float r;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x), "f"(y));
    return r;
}
#endif

/* Of two bf16 in a word one is a shift away from its float, the other a mask;
 * nvcc takes out the 16 bits of both and shifts them back. */
template <int W, class A, class T> FN void widen_all(A *v, const T *m)
{
    UNROLL for (int k = 0; k < W; k++) v[k] = (A)m[k];
}
template <int W> FN void widen_all(float *v, const bf16 *m)
{
    if constexpr (W % 2 == 0) {
        unsigned u[W / 2];
        memcpy(u, m, sizeof(u));
        UNROLL for (int k = 0; k < W; k++) v[k] =
            __uint_as_float(k % 2 ? u[k / 2] & 0xffff0000u : u[k / 2] << 16);
    } else {
        UNROLL for (int k = 0; k < W; k++) v[k] = (float)m[k];
    }
}

template <class T> struct two_of {
    typedef __half2 type;
};
template <> struct two_of<bf16> {
    typedef __nv_bfloat162 type;
};
/* W values of 16 bits, two at a time, between lo and hi; a NaN stays. */
template <int W, class T> FN void clamp_all(T *m, T lo, T hi)
{
    typedef typename two_of<T>::type V;
    const V los = {lo, lo}, his = {hi, hi};

    UNROLL for (int k = 0; k < W; k += 2)
    {
        V two = {m[k], m[k + 1]};
        two = __hmin2_nan(__hmax2_nan(two, los), his);
        m[k] = two.x;
        m[k + 1] = two.y;
    }
}

/* A store of R, an aligned array of 16-bit values. In the remainder of an
 * unrolled loop nvcc makes one store per value of a plain assignment. */
template <class T, class R> FN void store_raw(T *p, const R &m)
{
    if constexpr (sizeof(R) == 16) {
        uint4 u;
        memcpy(&u, &m, sizeof(u));
        asm volatile("st.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(u.x),
                     "r"(u.y), "r"(u.z), "r"(u.w)
                     : "memory");
    } else if constexpr (sizeof(R) == 8) {
        uint2 u;
        memcpy(&u, &m, sizeof(u));
        asm volatile("st.v2.b32 [%0], {%1, %2};" ::"l"(p), "r"(u.x), "r"(u.y)
                     : "memory");
    } else if constexpr (sizeof(R) == 4) {
        unsigned u;
        memcpy(&u, &m, sizeof(u));
        asm volatile("st.b32 [%0], %1;" ::"l"(p), "r"(u) : "memory");
    } else {
        *reinterpret_cast<R *>(p) = m;
    }
}

/* The same to shared memory: nvcc does not see where the pointer leads. */
template <class T, class R> FN void put_shared(T *to, const R &m)
{
    static_assert(sizeof(R) == 16 || sizeof(R) == 4, "one store");
    const unsigned at = (unsigned)__cvta_generic_to_shared(to);
    unsigned u[sizeof(R) / 4];
    memcpy(u, &m, sizeof(R));
    if constexpr (sizeof(R) == 16)
        asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(at),
                     "r"(u[0]), "r"(u[1]), "r"(u[2]), "r"(u[3])
                     : "memory");
    else
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(u[0]) : "memory");
}

#elif defined(EXEC_CUDA)
template <class X> FN X keep(X x)
{
    return x;
}
template <class T, class R> FN void store_raw(T *p, const R &m)
{
    *reinterpret_cast<R *>(p) = m;
}
template <class T, class R> FN void put_shared(T *to, const R &m)
{
    store_raw(to, m);
}
template <int W, class A, class T> FN void widen_all(A *v, const T *m)
{
    for (int k = 0; k < W; k++)
        v[k] = (A)m[k];
}
template <int W, class T> FN void clamp_all(T *m, T lo, T hi)
{
    for (int k = 0; k < W; k++)
        m[k] = (T)smaller_of(larger_of((float)m[k], (float)lo), (float)hi);
}
#endif

#endif
