/* gemm_host.c - GEMM by OpenBLAS. The only file that sees cblas.h.
 *
 * The OpenMP flavour of OpenBLAS shares its threads with our kernels; the
 * pthreads flavour would have a second pool that fights the first one for
 * the cores. Single GEMMs too small to share stay on one thread by
 * OpenBLAS's own rule.
 */
#include <cblas.h>
#include <omp.h>

#include "kernels/exec_device.h"

void host_gemm_threads(int32_t threads)
{
    /* OpenBLAS takes the OpenMP limit when it finds one that changed; both
     * are set so that it has nothing to find. */
    omp_set_num_threads(threads);
    openblas_set_num_threads(threads);
}

int host_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err)
{
    (void)d;
    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
    if (m == 0 || n == 0)
        return 0;
    enum CBLAS_TRANSPOSE opa = ta ? CblasTrans : CblasNoTrans;
    enum CBLAS_TRANSPOSE opb = tb ? CblasTrans : CblasNoTrans;
    if (dt == DT_F64)
        cblas_dgemm(CblasRowMajor, opa, opb, m, n, k, alpha, A, lda, B, ldb,
                    beta, C, ldc);
    else
        cblas_sgemm(CblasRowMajor, opa, opb, m, n, k, (float)alpha, A, lda, B,
                    ldb, (float)beta, C, ldc);
    return 0;
}
