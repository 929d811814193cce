/* simd.h - vectors of a few neighbouring values: one 16-byte access per lane on
 * the GPU, one SIMD register on the host.
 *
 * A value has a storage type T in memory and the accumulator type acc<T> in
 * registers: double for double, float for float, f16 and bf16. load() and
 * store() convert; all arithmetic is done in acc<T>.
 *
 * The same kernels on scalars were 2 to 6 times slower on the host: the
 * compiler does not vectorise loops with a stencil or a reduction in them. */
#ifndef MGPU_KERNELS_EXEC_SIMD_H
#define MGPU_KERNELS_EXEC_SIMD_H

#include "kernels/exec/simd_types.h"
#ifndef EXEC_CUDA
#include "kernels/exec/simd_host.h"
#endif

namespace
{

template <class T> struct acc_of {
    typedef float type;
};
template <> struct acc_of<double> {
    typedef double type;
};
template <class T> using acc = typename acc_of<T>::type;

#include "kernels/exec/simd_ptx.h"

#define EACH UNROLL for (int k = 0; k < W; k++)
#ifdef EXEC_CUDA
#define VEC_OP2(name, expr)           \
    friend FN vec name(vec a, vec b)  \
    {                                 \
        EACH                          \
        {                             \
            A x = a.v[k], y = b.v[k]; \
            a.v[k] = expr;            \
        }                             \
        return a;                     \
    }
#else
#define VEC_OP2(name, expr)          \
    friend FN vec name(vec a, vec b) \
    {                                \
        S x = a.v, y = b.v;          \
        return {expr};               \
    }
#endif

template <class A, int W> struct vec {
#ifdef EXEC_CUDA
    A v[W];
    template <class T>
    struct alignas(W * sizeof(T) < 16 ? W * sizeof(T) : 16) raw {
        T e[W];
    };
    static FN vec of(A a)
    {
        vec r;
        EACH r.v[k] = a;
        return r;
    }
    /* A load in two steps: hold() starts it, open() uses its result. */
    template <class T> static FN raw<T> hold(const T *p)
    {
        return *reinterpret_cast<const raw<T> *>(p);
    }
    template <class T> static FN vec open(const raw<T> &m)
    {
        vec r;
        widen_all<W>(r.v, m.e);
        return r;
    }
    template <class T> static FN vec load(const T *p)
    {
        return open(hold(p));
    }
    /* A store in two steps: what put() writes, open() reads. */
    template <class T> FN raw<T> round() const
    {
        raw<T> m;
        EACH m.e[k] = (T)v[k];
        return m;
    }
    template <class T> static FN void put(T *p, const raw<T> &m)
    {
        if constexpr (sizeof(T) == 2)
            return store_raw(p, m);
        *reinterpret_cast<raw<T> *>(p) = m;
    }
    template <class T> FN void store(T *p) const
    {
        put(p, round<T>());
    }
    friend FN vec vgate(vec a, vec z, A cap)
    {
        EACH a.v[k] = z.v[k] > 0 && z.v[k] < cap ? a.v[k] : A(0);
        return a;
    }
#else
    typedef typename simd<A, W>::type S;
    S v;
    static FN vec of(A a)
    {
        return {a - (S){}};
    }
    template <class T> struct raw {
        const T *p;
    };
    template <class T> static FN raw<T> hold(const T *p)
    {
        return {p};
    }
    template <class T> static FN vec open(const raw<T> &m)
    {
        return load(m.p);
    }
    template <class T> static FN vec load(const T *p)
    {
        return {widen<A, W>::from(p)};
    }
    template <class T> FN void store(T *p) const
    {
        widen<A, W>::to(p, v);
    }
    /* a where 0 < z < cap, else 0: the gradient of a clamp. */
    friend FN vec vgate(vec a, vec z, A cap)
    {
        return {((z.v > 0) & (z.v < cap)) ? a.v : (S){}};
    }
#endif
    VEC_OP2(operator+, x + y)
    VEC_OP2(operator-, x - y)
    VEC_OP2(operator*, x *y)
    VEC_OP2(operator/, x / y)
    /* A NaN on the left stays a NaN: a clamp must not hide it. */
    VEC_OP2(vmax, larger_of(x, y))
    VEC_OP2(vmin, smaller_of(x, y))
    friend FN vec vsqrt(vec a)
    {
        EACH a.v[k] = sqrt((A)a.v[k]);
        return a;
    }
    friend FN vec vexp(vec a)
    {
        EACH a.v[k] = exp((A)a.v[k]);
        return a;
    }
    friend FN vec operator*(vec a, A b)
    {
        return a * of(b);
    }
    friend FN vec operator+(vec a, A b)
    {
        return a + of(b);
    }
    friend FN vec operator-(vec a, A b)
    {
        return a - of(b);
    }
    FN vec &operator+=(vec b)
    {
        return *this = *this + b;
    }
    FN A total() const
    {
        A s = 0;
        EACH s += v[k];
        return s;
    }
    FN A largest() const
    {
        A s = v[0];
        EACH s = v[k] > s ? v[k] : s;
        return s;
    }

    /* For the end of a flat array, where only `left` values remain. */
    template <class T> static FN vec load(const T *p, int64_t left)
    {
        if (left >= W)
            return load(p);
        vec r = of(0);
        EACH if (k < left) r.v[k] = (A)p[k];
        return r;
    }
    template <class T> FN void store(T *p, int64_t left) const
    {
        if (left >= W)
            return store(p);
        EACH if (k < left) p[k] = (T)(A)v[k];
    }
};

} // namespace
#endif
