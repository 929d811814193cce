/* half.h - the two 16-bit floating point formats, bit by bit.
 *
 *           sign  exponent  fraction   largest    smallest normal, subnormal
 *   fp16       1         5        10   65504      2^-14            2^-24
 *   bf16       1         8         7   3.4e38     2^-126           2^-133
 *
 * Rounding is IEEE's default: to the nearest, ties to even; past the largest
 * value by half a step or more, infinity. A NaN stays a NaN, with its sign. The
 * compilers' own types are not used, because they differ: gcc 12 has _Float16
 * and no bfloat, clang 14 neither. The kernels use the machine's instructions
 * where they exist (simd_types.h), with the same results. */
#ifndef MGPU_KERNELS_EXEC_HALF_H
#define MGPU_KERNELS_EXEC_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static inline float half_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

/* A float that rounds to 16 bits as d does: d truncated, with the last bit set
 * if any bit was lost (rounding to odd), which avoids double rounding. */
static inline float half_odd(double d)
{
    float f = (float)d;
    uint32_t u = half_bits(f);
    double a = d < 0 ? -d : d, b = (double)half_float(u & 0x7fffffffu);

    if (a == b || d != d)
        return f;
    if (b > a)
        u--;
    return half_float(u | 1);
}

static inline uint16_t f16_of_float(float f)
{
    const uint32_t u = half_bits(f), sign = u >> 16 & 0x8000u;
    uint32_t a = u & 0x7fffffffu;

    if (a > 0x7f800000u) /* NaN, made quiet */
        return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x47800000u) /* 2^16 and more */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) /* below 2^-14: a float's adder rounds at 2^-24 */
        return (uint16_t)(sign |
                          (half_bits(half_float(a) + 0.5f) - 0x3f000000u));
    a -= 112u << 23; /* the bias of the exponent: 127 to 15 */
    return (uint16_t)(sign | ((a + 0xfffu + (a >> 13 & 1)) >> 13));
}

static inline float f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
    const uint32_t a = (uint32_t)(h & 0x7fffu) << 13;

    if (a >= 0x7c00u << 13)
        return half_float(sign | a | 0x7f800000u |
                          (a > 0x7c00u << 13 ? 0x400000u : 0));
    if (a < 1u << 23) /* subnormal: a multiple of 2^-24 */
        return half_float(
            sign | half_bits((float)(h & 0x7fffu) * 5.9604644775390625e-8f));
    return half_float(sign | (a + (112u << 23)));
}

static inline uint16_t bf16_of_float(float f)
{
    const uint32_t u = half_bits(f);

    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static inline float bf16_to_float(uint16_t b)
{
    return half_float((uint32_t)b << 16);
}

#endif
