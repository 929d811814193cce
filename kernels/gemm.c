/* gemm.c - check the shape of a GEMM before calling a library.
 *
 * BLAS reports a wrong argument by printing and exiting, cuBLASLt by a code
 * without a name for the argument: neither is an error message. */
#include "kernels/exec/exec_device.h"

static int32_t at_least(int32_t n)
{
    return n > 1 ? n : 1;
}

int gemm_check(enum dtype dt, bool ta, bool tb, int32_t m, int32_t n, int32_t k,
               int32_t lda, int32_t ldb, int32_t ldc, struct error *err)
{
    if ((int)dt < 0 || dt >= DT_N)
        return error_set(err, ERR_INVAL, "matrix product: no such dtype: %d",
                         (int)dt);
    if (m < 0 || n < 0 || k < 0)
        return error_set(err, ERR_INVAL, "matrix product: [%d, %d] by [%d, %d]",
                         m, k, k, n);
    if (lda < at_least(ta ? m : k) || ldb < at_least(tb ? k : n) ||
        ldc < at_least(n))
        return error_set(
            err, ERR_INVAL,
            "matrix product: [%d, %d] by [%d, %d]: leading dimensions "
            "%d, %d, %d are too small",
            m, k, k, n, lda, ldb, ldc);
    return 0;
}
