/* hf_copy.c - convert the values of a tensor; see hf_dir.h.
 *
 * Between types that a float holds exactly, values go through floats, a block
 * at a time: loops over one type are vectorized. Where one side is double they
 * go through doubles, and are rounded once. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/exec/half.h"
#include "worker/llm/files/hf_internal.h"

enum { BLOCK = 256 };

enum dtype hf_dtype(enum st_type type)
{
    switch (type) {
    case ST_F64:
        return DT_F64;
    case ST_F32:
        return DT_F32;
    case ST_F16:
        return DT_F16;
    case ST_BF16:
        return DT_BF16;
    default:
        return DT_N;
    }
}

/* Converts to float; neither array need be aligned. */
static void load(enum dtype dt, const char *from, int64_t n, float *to)
{
    uint16_t h;
    if (dt == DT_F32)
        memcpy(to, from, (size_t)n * sizeof(*to));
    else if (dt == DT_F16)
        for (int64_t i = 0; i < n; i++) {
            memcpy(&h, from + i * 2, sizeof(h));
            to[i] = f16_to_float(h);
        }
    else
        for (int64_t i = 0; i < n; i++) {
            memcpy(&h, from + i * 2, sizeof(h));
            to[i] = bf16_to_float(h);
        }
}

static void store(enum dtype dt, const float *from, int64_t n, char *to)
{
    uint16_t h;
    if (dt == DT_F32)
        memcpy(to, from, (size_t)n * sizeof(*from));
    else if (dt == DT_F16)
        for (int64_t i = 0; i < n; i++) {
            h = f16_of_float(from[i]);
            memcpy(to + i * 2, &h, sizeof(h));
        }
    else
        for (int64_t i = 0; i < n; i++) {
            h = bf16_of_float(from[i]);
            memcpy(to + i * 2, &h, sizeof(h));
        }
}

void hf_copy(const struct st_tensor *t, int64_t first, int64_t count,
             enum dtype dt, void *to)
{
    const enum dtype is = hf_dtype(t->type);
    assert(is != DT_N && dt != DT_N);
    const int64_t size = st_types[t->type].bytes;
    const int64_t out = (int64_t)dtype_bytes(dt);
    assert(first >= 0 && count >= 0 &&
           first <= (int64_t)t->bytes / size - count);
    const char *from = (const char *)t->data + first * size;
    float block[BLOCK];
    if (is == dt) {
        memcpy(to, from, (size_t)(count * size));
        return;
    }
    if (is == DT_F64 || dt == DT_F64) {
        for (int64_t i = 0; i < count; i++)
            dtype_set(dt, to, i, dtype_get(is, from, i));
        return;
    }
    for (int64_t i = 0; i < count; i += BLOCK) {
        int64_t n = count - i < BLOCK ? count - i : BLOCK;
        load(is, from + i * size, n, block);
        store(dt, block, n, (char *)to + i * out);
    }
}

/* All bits of the exponent are set. */
#define ANY_NOT_FINITE(type, mask)                                  \
    do {                                                            \
        type v;                                                     \
        for (int64_t i = 0; i < n; i++) {                           \
            memcpy(&v, values + i * (int64_t)sizeof(v), sizeof(v)); \
            any |= (v & (mask)) == (mask);                          \
        }                                                           \
    } while (0)

static bool has_not_finite(enum dtype dt, const char *values, int64_t n)
{
    int any = 0;
    if (dt == DT_F64)
        ANY_NOT_FINITE(uint64_t, UINT64_C(0x7ff) << 52);
    else if (dt == DT_F32)
        ANY_NOT_FINITE(uint32_t, UINT32_C(0xff) << 23);
    else if (dt == DT_F16)
        ANY_NOT_FINITE(uint16_t, 0x7c00);
    else
        ANY_NOT_FINITE(uint16_t, 0x7f80);
    return any != 0;
}

int64_t hf_not_finite(enum dtype dt, const void *values, int64_t n)
{
    const int64_t size = (int64_t)dtype_bytes(dt);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        if (!has_not_finite(dt, (const char *)values + i * size, count))
            continue;
        while (isfinite(dtype_get(dt, values, i)))
            i++;
        return i;
    }
    return -1;
}

bool hf_is_copy(const struct st_tensor *copy, const struct st_tensor *of)
{
    const enum dtype dt = hf_dtype(copy->type);
    double block[BLOCK]; /* no type is wider */
    if (dt == DT_N || hf_dtype(of->type) == DT_N || copy->dims != of->dims ||
        memcmp(copy->shape, of->shape,
               (size_t)of->dims * sizeof(of->shape[0])) != 0)
        return false;
    const size_t size = dtype_bytes(dt);
    const int64_t n = (int64_t)(copy->bytes / size);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        hf_copy(of, i, count, dt, block);
        if (memcmp(block, (const char *)copy->data + (size_t)i * size,
                   (size_t)count * size) != 0)
            return false;
    }
    return true;
}
