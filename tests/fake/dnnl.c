/* dnnl.c - a oneDNN that fails.
 *
 * FAKE_DNNL   wrong: its last value of a row is, where there are more than 8;
 *             status=N: every product fails so; late=N: those of more than
 *             1,000 rows do; runtime=N: its threads are those of DNNL_RUNTIME_
 *             N, and not OpenMP's; isa=512: it has AVX-512, but no matmul */
#include <dnnl.h>
#include <stdlib.h>
#include <string.h>

static const char *words(void)
{
    const char *ret = getenv("FAKE_DNNL");
    return ret != NULL ? ret : "";
}

static dnnl_status_t status_of(const char *word)
{
    const char *at = strstr(words(), word);
    return at != NULL ? (dnnl_status_t)atoi(at + strlen(word)) : dnnl_success;
}

const dnnl_version_t *dnnl_version(void)
{
    static dnnl_version_t version = {.minor = 1};
    const char *at = strstr(words(), "runtime=");
    version.cpu_runtime =
        at != NULL ? (unsigned)atoi(at + strlen("runtime=")) : DNNL_RUNTIME_OMP;
    return &version;
}

dnnl_cpu_isa_t dnnl_get_effective_cpu_isa(void)
{
    return strstr(words(), "isa=512") != NULL ? dnnl_cpu_isa_avx512_core
                                              : dnnl_cpu_isa_avx2;
}

dnnl_status_t dnnl_sgemm(char ta, char tb, dnnl_dim_t m, dnnl_dim_t n,
                         dnnl_dim_t k, float alpha, const float *A,
                         dnnl_dim_t lda, const float *B, dnnl_dim_t ldb,
                         float beta, float *C, dnnl_dim_t ldc)
{
    const dnnl_status_t status = status_of(m > 1000 ? "late=" : "status=");
    if (status != dnnl_success)
        return status;
    for (dnnl_dim_t i = 0; i < m; i++)
        for (dnnl_dim_t j = 0; j < n; j++) {
            float sum = 0;
            for (dnnl_dim_t l = 0; l < k; l++)
                sum += A[ta == 'T' ? l * lda + i : i * lda + l] *
                       B[tb == 'T' ? j * ldb + l : l * ldb + j];
            if (n > 8 && j == n - 1 && strstr(words(), "wrong") != NULL)
                sum += 1;
            const float was = beta == 0 ? 0 : beta * C[i * ldc + j];
            C[i * ldc + j] = alpha * sum + was;
        }
    return dnnl_success;
}
