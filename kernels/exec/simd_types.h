/* simd_types.h - the 16-bit storage types of the kernels.
 *
 * They are loaded, widened to float, and rounded when stored; they have no
 * arithmetic. nvcc has its own; elsewhere they are two bytes and a conversion,
 * by the machine's instructions where they exist (F16C is part of x86-64-v3,
 * bfloat needs shifts), else by half.h. */
#ifndef MGPU_KERNELS_EXEC_SIMD_TYPES_H
#define MGPU_KERNELS_EXEC_SIMD_TYPES_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#include "kernels/exec/simd_cuda.h"
#else
#include "kernels/exec/half.h"
#ifdef __F16C__
#include <immintrin.h>
#endif
#endif

namespace
{

#ifndef __CUDACC__

struct f16 {
    uint16_t b;
    f16() = default;
#ifdef __F16C__
    explicit inline f16(float f)
        : b((uint16_t)_cvtss_sh(f, _MM_FROUND_TO_NEAREST_INT))
    {
    }
    explicit inline operator float() const
    {
        return _cvtsh_ss(b);
    }
#else
    explicit inline f16(float f) : b(f16_of_float(f))
    {
    }
    explicit inline operator float() const
    {
        return f16_to_float(b);
    }
#endif
    explicit inline f16(double d) : f16(half_odd(d))
    {
    }
    explicit inline f16(int i) : f16((float)i)
    {
    }
    explicit inline operator double() const
    {
        return (double)(float)*this;
    }
};

struct bf16 {
    uint16_t b;
    bf16() = default;
    explicit inline bf16(float f) : b(bf16_of_float(f))
    {
    }
    explicit inline bf16(double d) : bf16(half_odd(d))
    {
    }
    explicit inline bf16(int i) : bf16((float)i)
    {
    }
    explicit inline operator float() const
    {
        return bf16_to_float(b);
    }
    explicit inline operator double() const
    {
        return (double)(float)*this;
    }
};

#endif

} // namespace
#endif
