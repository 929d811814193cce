/* gemm_narrow.h - products of the host with an edge of a few values, as those
 * with adapters are: of fp32 and of 16-bit types, which need no copy in fp32.
 * Each is compiled twice (kernels/README.md); the second is for AVX-512. */
#ifndef MGPU_KERNELS_GEMM_NARROW_H
#define MGPU_KERNELS_GEMM_NARROW_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* C[m,n] = alpha * op(A) op(B) + beta * C, of rows; beta 0: C is not read.
 * Sums are of fp32. Either ta is false and n or k is a few values, or ta is
 * true, tb is false, and m or n is. */
struct narrow {
    bool ta, tb;
    int32_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
    const void *A, *B;
    void *C;
};

/* The same bits for any number of threads; uses the device's scratch.
 * in   dt       not fp64
 * in   threads  at most so many compute
 * err  ERR_NOMEM */
int host_narrow_gemm(struct device *d, enum dtype dt, const struct narrow *p,
                     int32_t threads, struct error *err) MUST_CHECK;
int wide_narrow_gemm(struct device *d, enum dtype dt, const struct narrow *p,
                     int32_t threads, struct error *err) MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
