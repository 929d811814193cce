/* gemm_dnnl.h - oneDNN's product, opened when OpenBLAS is. Included where
 * HAVE_DNNL says whether the build found it. */
#ifndef MGPU_KERNELS_GEMM_DNNL_H
#define MGPU_KERNELS_GEMM_DNNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"

#if HAVE_DNNL
/* Opens it, the first time, on a processor with AVX2, and lets it multiply a
 * few matrices. Where $MGPU_DNNL is 0, or where it cannot be opened, fails or
 * is wrong, the log says so and OpenBLAS multiplies all. */
void gemm_dnnl_open(void);
/* Whether it is open and right. */
bool gemm_dnnl_is_open(void);
/* C[m,n] = alpha * op(A) op(B) + beta * C of rows, in fp32; k > 0.
 * err  ERR_NOMEM; ERR_EXTERN it fails otherwise */
int gemm_dnnl(bool ta, bool tb, int32_t m, int32_t n, int32_t k, float alpha,
              const float *A, int32_t lda, const float *B, int32_t ldb,
              float beta, float *C, int32_t ldc, struct error *err) MUST_CHECK;
/* " and oneDNN 2.6.3 with AVX2", or why it is not used. */
void gemm_dnnl_describe(char *buf, size_t cap);
#endif

#endif
