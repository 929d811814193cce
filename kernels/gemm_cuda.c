/* gemm_cuda.c - GEMM by cuBLAS. The only file that sees its header.
 *
 * cuBLAS is column major. A row-major C is a column-major C transposed, and
 * (A B)^T = B^T A^T: the operands change places, and each keeps its own
 * transposition and leading dimension.
 *
 * fp32 is computed in fp32 unless the job asks for TF32: 10 bits of fraction
 * are a choice for it to make, not for the library. 16-bit factors are summed
 * in fp32, also between the parts of a product that cuBLAS splits along k,
 * which it may otherwise add up in the type of the result. The workspace is
 * ours, so that cuBLAS allocates nothing in a step, and with one stream it
 * gives the same bits in every run on the same kind of GPU (cuBLAS
 * manual, 2.1.4).
 */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "kernels/exec_cuda.h"

/* What NVIDIA recommends for compute capability 9.0 (cublasSetWorkspace). */
enum { WORKSPACE_BYTES = 32 << 20 };

static int blas_check(cublasStatus_t s, struct error *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_set(err, ERR_EXTERN, "gemm: cuBLAS: %s",
                     cublasGetStatusString(s));
}

void cuda_gemm_close(struct cuda_device *cuda)
{
    if (cuda->blas)
        (void)cublasDestroy((cublasHandle_t)cuda->blas);
    (void)cudaFree(cuda->blas_workspace);
    cuda->blas = NULL;
    cuda->blas_workspace = NULL;
}

int cuda_gemm_open(struct cuda_device *cuda, struct error *err)
{
    cublasHandle_t blas = NULL;

    if (blas_check(cublasCreate(&blas), err) < 0)
        return -1;
    cuda->blas = blas;
    if (cuda_check((int)cudaMalloc(&cuda->blas_workspace, WORKSPACE_BYTES),
                   "cuBLAS workspace", err) < 0 ||
        blas_check(cublasSetStream(blas, (cudaStream_t)cuda->exec.stream),
                   err) < 0 ||
        blas_check(
            cublasSetWorkspace(blas, cuda->blas_workspace, WORKSPACE_BYTES),
            err) < 0)
        return -1; /* the caller closes */
    return cuda_allow_tf32(&cuda->exec.base, false, err);
}

int cuda_allow_tf32(struct device *d, bool allow, struct error *err)
{
    cublasHandle_t blas = (cublasHandle_t)((struct cuda_device *)d)->blas;
    unsigned mode = allow ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;

    mode |= CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    return blas_check(cublasSetMathMode(blas, (cublasMath_t)mode), err);
}

int cuda_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err)
{
    cublasHandle_t blas = (cublasHandle_t)((struct cuda_device *)d)->blas;
    cublasOperation_t opa = ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t opb = tb ? CUBLAS_OP_T : CUBLAS_OP_N;

    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
    if (m == 0 || n == 0)
        return 0;
    if (dt == DT_F64)
        return blas_check(cublasDgemm(blas, opb, opa, n, m, k, &alpha, B, ldb,
                                      A, lda, &beta, C, ldc),
                          err);
    float alpha32 = (float)alpha, beta32 = (float)beta;
    if (dt != DT_F32) {
        const cudaDataType_t type = dt == DT_F16 ? CUDA_R_16F : CUDA_R_16BF;
        return blas_check(cublasGemmEx(blas, opb, opa, n, m, k, &alpha32, B,
                                       type, ldb, A, type, lda, &beta32, C,
                                       type, ldc, CUBLAS_COMPUTE_32F,
                                       CUBLAS_GEMM_DEFAULT),
                          err);
    }
    return blas_check(cublasSgemm(blas, opb, opa, n, m, k, &alpha32, B, ldb, A,
                                  lda, &beta32, C, ldc),
                      err);
}
