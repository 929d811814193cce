/* gemm_dnnl.c - see gemm_dnnl.h.
 *
 * It is opened and not linked, for the reasons of blas_host.c. Versions 2 and 3
 * have the same sgemm. It shares OpenMP's team with OpenBLAS and our kernels.
 */
#include "kernels/gemm_dnnl.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/host_cpu.h"

/* A thread needs some 0.1 ms for so many products: with less, a team that waits
 * for a core on a busy machine costs more than it saves. */
enum { TEAM_WORK = 4 << 20 };

/* What a program that links it asks for: "libdnnl.so.2". */
static const char library[] = DNNL_LIBRARY;

struct dnnl {
    __typeof__(dnnl_sgemm) *sgemm;
    char text[120];
};

/* ISO C has no cast from an object to a function pointer. */
static bool find(void *lib, const char *name, void *ret)
{
    void *symbol = dlsym(lib, name);
    memcpy(ret, &symbol, sizeof(symbol));
    return symbol != NULL;
}

/* The sets of instructions are bits, and each has those of the poorer ones. */
static enum blas_level level_of(dnnl_cpu_isa_t isa)
{
    const unsigned bits = (unsigned)isa;
    const unsigned avx512 = (unsigned)dnnl_cpu_isa_avx512_core;
    const unsigned avx2 = (unsigned)dnnl_cpu_isa_avx2;
    return (bits & avx512) == avx512 ? BLAS_AVX512
           : (bits & avx2) == avx2   ? BLAS_AVX2
                                     : BLAS_SSE;
}

static void open_library(struct dnnl *ret)
{
    __typeof__(dnnl_version) *version;
    __typeof__(dnnl_get_effective_cpu_isa) *isa;
    __typeof__(dnnl_set_max_cpu_isa) *set_most;
    if (!host_cpu().avx2)
        return;
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL || !find(lib, "dnnl_version", &version) ||
        !find(lib, "dnnl_get_effective_cpu_isa", &isa) ||
        !find(lib, "dnnl_sgemm", &ret->sgemm)) {
        ret->sgemm = NULL;
        (void)snprintf(ret->text, sizeof(ret->text),
                       " (oneDNN cannot be opened: %.80s)", dlerror());
        return;
    }
    /* As our own kernels, unless a user has said what to do. */
    if (!host_cpu().avx512 && getenv("DNNL_MAX_CPU_ISA") == NULL &&
        getenv("ONEDNN_MAX_CPU_ISA") == NULL &&
        find(lib, "dnnl_set_max_cpu_isa", &set_most))
        (void)set_most(dnnl_cpu_isa_avx2);
    const dnnl_version_t *v = version();
    (void)snprintf(ret->text, sizeof(ret->text), " and oneDNN %d.%d.%d with %s",
                   v->major, v->minor, v->patch,
                   host_cpu_level_name(level_of(isa())));
}

/* A process has one library. */
static struct dnnl dnnl;

static void open_once(void)
{
    open_library(&dnnl);
}

void gemm_dnnl_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, open_once);
}

bool gemm_dnnl_is_open(void)
{
    return dnnl.sgemm != NULL;
}

int gemm_dnnl(bool ta, bool tb, int32_t m, int32_t n, int32_t k, float alpha,
              const float *A, int32_t lda, const float *B, int32_t ldb,
              float beta, float *C, int32_t ldc, struct error *err)
{
    const int threads = omp_get_max_threads();
    const bool alone = (int64_t)m * n * k < TEAM_WORK && threads > 1;
    if (alone)
        omp_set_num_threads(1);
    const dnnl_status_t status =
        dnnl.sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, A, lda, B,
                   ldb, beta, C, ldc);
    if (alone)
        omp_set_num_threads(threads);
    if (status != dnnl_success)
        return error_set(err, ERR_NOMEM,
                         "matrix product: [%d, %d] by [%d, %d]: oneDNN has no "
                         "memory (%d)",
                         m, k, k, n, (int)status);
    return 0;
}

void gemm_dnnl_describe(char *buf, size_t cap)
{
    (void)snprintf(buf, cap, "%s", dnnl.text);
}
