/* gemm_wide_dnnl.h - oneDNN's matmul, for wide products on a processor with
 * AVX-512. Included where HAVE_DNNL says whether the build found it. */
#ifndef MGPU_KERNELS_GEMM_WIDE_DNNL_H
#define MGPU_KERNELS_GEMM_WIDE_DNNL_H

#include <stdbool.h>
#include <stdint.h>

#include "jobs/base/error.h"

#if HAVE_DNNL
/* Takes matmul from the library, which gemm_dnnl_open() has opened and which
 * may use AVX-512, and lets it multiply a few matrices. Called once.
 * Returns NULL, or why it is not used: "multiplies wrongly". */
const char *gemm_wide_dnnl_open(void *lib);
/* Whether it is there and right. */
bool gemm_wide_dnnl_is_open(void);
/* C[m,n] = A op(B), or C += A op(B), of rows in fp32; k > 0. Rows have no gaps
 * between them: with gaps matmul takes other code, whose bits depend on how
 * many rows of C a call computes.
 * err  ERR_NOMEM; ERR_EXTERN it fails otherwise */
int gemm_wide_dnnl(bool tb, int32_t m, int32_t n, int32_t k, const float *A,
                   const float *B, bool adds, float *C,
                   struct error *err) MUST_CHECK;
#endif

#endif
