/* gguf_values.c - see gguf_values.h. */
#include "worker/llm/gguf/gguf_values.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/exec/half.h"

enum { Q8_BYTES = 2 + GGUF_Q8_BLOCK, F16_INFINITE = 0x7c00 };

int64_t gguf_values_bytes(enum gguf_type type, int64_t n)
{
    switch (type) {
    case GGUF_F32:
        return n * 4;
    case GGUF_Q8_0:
        return n / GGUF_Q8_BLOCK * Q8_BYTES;
    default:
        return n * 2;
    }
}

static bool is_infinite(uint16_t f16)
{
    return (f16 & F16_INFINITE) == F16_INFINITE;
}

/* Divides by d through 1 / d, in float, as ggml does: the quotient's rounding
 * decides which int8 a value becomes. Where 1 / d is infinite, d is 0 in fp16,
 * and so is every value. */
static bool encode_block(const float *x, unsigned char *ret)
{
    float most = 0;
    for (int i = 0; i < GGUF_Q8_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    const float d = most / 127;
    const float by = d > 0 && isfinite(1 / d) ? 1 / d : 0;
    const uint16_t scale = f16_of_float(d);
    ret[0] = (unsigned char)(scale & 0xff);
    ret[1] = (unsigned char)(scale >> 8);
    for (int i = 0; i < GGUF_Q8_BLOCK; i++)
        ret[2 + i] = (unsigned char)(int8_t)roundf(x[i] * by);
    return !is_infinite(scale);
}

static bool encode_halves(enum gguf_type type, const float *x, int64_t n,
                          unsigned char *ret)
{
    bool fits = true;
    for (int64_t i = 0; i < n; i++) {
        const uint16_t h =
            type == GGUF_F16 ? f16_of_float(x[i]) : bf16_of_float(x[i]);
        fits = fits &&
               !(type == GGUF_F16 ? is_infinite(h) : (h & 0x7f80) == 0x7f80);
        ret[2 * i] = (unsigned char)(h & 0xff);
        ret[2 * i + 1] = (unsigned char)(h >> 8);
    }
    return fits;
}

bool gguf_values_encode(enum gguf_type type, const float *x, int64_t n,
                        void *ret)
{
    unsigned char *to = ret;
    bool fits = true;
    switch (type) {
    case GGUF_F32:
        memcpy(to, x, (size_t)n * sizeof(*x));
        return true;
    case GGUF_Q8_0:
        assert(n % GGUF_Q8_BLOCK == 0);
        for (int64_t i = 0; i < n; i += GGUF_Q8_BLOCK, to += Q8_BYTES)
            fits = encode_block(x + i, to) && fits;
        return fits;
    default:
        return encode_halves(type, x, n, to);
    }
}
