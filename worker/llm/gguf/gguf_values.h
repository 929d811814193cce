/* gguf_values.h - the types that tensors of a GGUF file have here.
 *
 * q8_0: 32 values are 34 bytes, a scale d in fp16 and 32 of int8; a value is d
 * times its int8. d is the largest magnitude / 127.
 *
 * src  ggml, docs/gguf.md: ggml_type; ggml-quants.c: quantize_row_q8_0_ref */
#ifndef MGPU_WORKER_LLM_GGUF_VALUES_H
#define MGPU_WORKER_LLM_GGUF_VALUES_H

#include <stdbool.h>
#include <stdint.h>

enum gguf_type {
    GGUF_F32 = 0,
    GGUF_F16 = 1,
    GGUF_Q8_0 = 8,
    GGUF_BF16 = 30,
};

enum { GGUF_Q8_BLOCK = 32 };

/* Bytes of n values. in  n  of q8_0 a multiple of GGUF_Q8_BLOCK */
int64_t gguf_values_bytes(enum gguf_type type, int64_t n);

/* Rounds n finite values to the type: to the nearest, ties to even; the int8 of
 * q8_0 with ties away from zero, as ggml does.
 * in   x    [n]
 * out  ret  [gguf_values_bytes()]
 * returns whether all of them fit: a value above what f16 has does not, nor one
 * whose scale is above it */
bool gguf_values_encode(enum gguf_type type, const float *x, int64_t n,
                        void *ret);

#endif
