/* gemm_host.c - GEMM by OpenBLAS, which blas_host.c opens, and narrow products
 * of fp32 by oneDNN.
 *
 * The OpenMP flavour of OpenBLAS shares its threads with our kernels; the
 * pthreads flavour would have a second pool that competes for the cores.
 * OpenBLAS itself runs GEMMs that are too small to share on one thread. */
#include <omp.h>

#include "kernels/blas_host.h"
#include "kernels/exec/exec_device.h"
#include "kernels/gemm_dnnl.h"

void host_gemm_threads(int32_t threads)
{
    /* OpenBLAS adopts the OpenMP limit when it finds a change; set both, so
     * that it finds none. */
    omp_set_num_threads(threads);
    blas_opened()->set_num_threads(threads);
}

#if HAVE_DNNL
/* Products with adapters, whose rank is 8 or so, and of small networks.
 * OpenBLAS packs both factors for blocks that they do not fill; with AVX2
 * oneDNN takes half the time and less where an edge is 8 or 16, as much from 64
 * on, and more than OpenBLAS where there are few rows or both edges are wide
 * (figures: docs/performance.md). By the shape alone: so runs repeat bit for
 * bit. */
static bool is_narrow(bool ta, int32_t m, int32_t n, int32_t k)
{
    static const struct {
        bool ta;
        int32_t m_least, m_most, n_most, k_least, k_most;
    } table[] = {
        /* tokens, rows of a few values */
        {false, 256, INT32_MAX, 64, 1, INT32_MAX},
        /* tokens, sums of few values */
        {false, 512, INT32_MAX, INT32_MAX, 1, 32},
        /* the gradient of few weights, summed over tokens */
        {true, 1, 256, 64, 256, INT32_MAX},
        {true, 1, 64, 256, 256, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (ta == table[i].ta && m >= table[i].m_least &&
            m <= table[i].m_most && n <= table[i].n_most &&
            k >= table[i].k_least && k <= table[i].k_most)
            return true;
    return false;
}
#endif

static int multiply32(struct exec_device *exec, bool ta, bool tb, int32_t m,
                      int32_t n, int32_t k, double alpha, const float *A,
                      int32_t lda, const float *B, int32_t ldb, double beta,
                      float *C, int32_t ldc, struct error *err)
{
    double begin_s = exec_begin(exec);
    int rc = 0;
#if HAVE_DNNL
    if (is_narrow(ta, m, n, k) && gemm_dnnl_is_open())
        rc = gemm_dnnl(ta, tb, m, n, k, (float)alpha, A, lda, B, ldb,
                       (float)beta, C, ldc, err);
    else
#else
    (void)err;
#endif
        blas_opened()->sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                             tb ? CblasTrans : CblasNoTrans, m, n, k,
                             (float)alpha, A, lda, B, ldb, (float)beta, C, ldc);
    exec_end(exec, DEVICE_GEMM, begin_s, 0);
    return rc;
}

/* Number of values from the first to the last, including the gaps between
 * rows. */
static int64_t values(int32_t rows, int32_t cols, int32_t ld)
{
    return rows > 0 && cols > 0 ? (int64_t)(rows - 1) * ld + cols : 0;
}

/* OpenBLAS 0.3.21 has no products of fp16, and of bf16 only for some CPUs:
 * multiply copies in fp32. */
static int multiply16(struct device *d, enum dtype dt, bool ta, bool tb,
                      int32_t m, int32_t n, int32_t k, double alpha,
                      const void *A, int32_t lda, const void *B, int32_t ldb,
                      double beta, void *C, int32_t ldc, struct error *err)
{
    struct exec_device *exec = (struct exec_device *)d;
    const int64_t a = values(ta ? k : m, ta ? m : k, lda);
    const int64_t b = values(tb ? n : k, tb ? k : n, ldb);
    const int64_t c = values(m, n, ldc);
    const size_t bytes = (size_t)(a + b + c) * sizeof(float);

    if (bytes > exec->scratch_bytes && exec->grow(exec, bytes, err) < 0)
        return -1;
    float *fa = exec->scratch, *fb = fa + a, *fc = fb + b;
    if (d->ops->cast(d, DT_F32, fa, dt, A, a, err) < 0 ||
        d->ops->cast(d, DT_F32, fb, dt, B, b, err) < 0 ||
        d->ops->cast(d, DT_F32, fc, dt, C, c, err) < 0)
        return -1;
    if (multiply32(exec, ta, tb, m, n, k, alpha, fa, lda, fb, ldb, beta, fc,
                   ldc, err) < 0)
        return -1;
    return d->ops->cast(d, dt, C, DT_F32, fc, c, err);
}

int host_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err)
{
    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
    if (m == 0 || n == 0)
        return 0;
    if (dt == DT_F16 || dt == DT_BF16)
        return multiply16(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta,
                          C, ldc, err);
    struct exec_device *exec = (struct exec_device *)d;
    if (dt == DT_F32)
        return multiply32(exec, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C,
                          ldc, err);
    double begin_s = exec_begin(exec);
    blas_opened()->dgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                         tb ? CblasTrans : CblasNoTrans, m, n, k, alpha, A, lda,
                         B, ldb, beta, C, ldc);
    exec_end(exec, DEVICE_GEMM, begin_s, 0);
    return 0;
}
