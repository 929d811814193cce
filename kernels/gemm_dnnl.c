/* gemm_dnnl.c - see gemm_dnnl.h.
 *
 * It is opened and not linked, for the reasons of blas_host.c. Versions 2 and 3
 * have the same sgemm. A call runs on one thread (gemm_host.c). */
#include "kernels/gemm_dnnl.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/gemm_wide_dnnl.h"
#include "kernels/host_cpu.h"

enum { MAX_VALUES = 24 * 256 }; /* of a matrix of the proof */

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

static const char *meaning(dnnl_status_t status)
{
    return status == dnnl_out_of_memory ? "has no memory"
           : status == dnnl_unimplemented
               ? "cannot make its code, may memory become executable?"
               : "fails";
}

/* ---- the proof ------------------------------------------------------------
 * It writes its code when it multiplies first: where memory may not become
 * executable it opens, and multiplies nothing. */

/* Small integers: every sum is exact in fp32, in whichever order. */
static float value(int i)
{
    return (float)(i * 7 % 11 - 5);
}

static float product(int m, int n, int k, bool ta, bool tb, int row, int col)
{
    float sum = 0;
    for (int i = 0; i < k; i++)
        sum += value(ta ? i * m + row : row * k + i) *
               value(tb ? col * k + i : i * n + col);
    return sum;
}

/* in   alpha, beta  0 or powers of 2; beta 0: what C holds must not stay
 * out  is_right     whether each value of C is */
static dnnl_status_t try_shape(__typeof__(dnnl_sgemm) *sgemm, int m, int n,
                               int k, bool ta, bool tb, float alpha, float beta,
                               bool *is_right)
{
    static float a[MAX_VALUES], b[MAX_VALUES], c[MAX_VALUES];
    for (int i = 0; i < MAX_VALUES; i++) {
        a[i] = b[i] = value(i);
        c[i] = beta == 0 ? NAN : (float)(i % 3);
    }
    const dnnl_status_t ret =
        sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, a, ta ? m : k, b,
              tb ? k : n, beta, c, n);
    *is_right = true;
    for (int i = 0; i < m * n; i++) {
        const float was = beta == 0 ? 0 : beta * (float)(i % 3);
        const float want = alpha * product(m, n, k, ta, tb, i / n, i % n);
        *is_right = *is_right && c[i] == want + was;
    }
    return ret;
}

/* Why it cannot be used; NULL: it can. */
static const char *fault(__typeof__(dnnl_sgemm) *sgemm)
{
    /* Edges that no kernel's block divides, one column, and long sums. */
    static const int shapes[][3] = {
        {5, 33, 17}, {67, 41, 35}, {300, 1, 9}, {24, 8, 256}};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        for (int t = 0; t < 4; t++) {
            const int *s = shapes[i];
            bool is_right;
            const dnnl_status_t status =
                try_shape(sgemm, s[0], s[1], s[2], t & 1, t & 2,
                          t % 3 == 0 ? 1 : 2, t % 3 == 0 ? 0 : 0.5F, &is_right);
            if (status != dnnl_success)
                return meaning(status);
            if (!is_right)
                return "multiplies wrongly";
        }
    return NULL;
}

/* ---- the library ----------------------------------------------------------
 */

/* Threads of its own would take no notice of omp_set_num_threads(), and wait on
 * our cores between calls. A build without threads is as good as OpenMP's. */
static bool has_our_threads(const dnnl_version_t *v)
{
    return v->cpu_runtime == DNNL_RUNTIME_OMP ||
           v->cpu_runtime == DNNL_RUNTIME_SEQ;
}

static void open_library(struct dnnl *ret)
{
    __typeof__(dnnl_version) *version;
    __typeof__(dnnl_get_effective_cpu_isa) *isa;
    __typeof__(dnnl_set_max_cpu_isa) *set_most;
    __typeof__(dnnl_sgemm) *sgemm;
    const char *asked = getenv("MGPU_DNNL");
    if (!host_cpu().avx2)
        return;
    if (asked != NULL && strcmp(asked, "0") == 0) {
        (void)snprintf(ret->text, sizeof(ret->text),
                       " without oneDNN (MGPU_DNNL=0)");
        return;
    }
    void *lib = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (lib == NULL || !find(lib, "dnnl_version", &version) ||
        !find(lib, "dnnl_get_effective_cpu_isa", &isa) ||
        !find(lib, "dnnl_sgemm", &sgemm)) {
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
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1); /* as each call later */
    const char *why =
        has_our_threads(v) ? fault(sgemm) : "has threads that are not OpenMP's";
    const enum blas_level level = level_of(isa());
    const char *wide =
        why == NULL && level == BLAS_AVX512 ? gemm_wide_dnnl_open(lib) : NULL;
    omp_set_num_threads(threads);
    if (why != NULL) {
        (void)snprintf(ret->text, sizeof(ret->text),
                       " (oneDNN %d.%d.%d is not used: it %s)", v->major,
                       v->minor, v->patch, why);
        return;
    }
    ret->sgemm = sgemm;
    (void)snprintf(ret->text, sizeof(ret->text),
                   " and oneDNN %d.%d.%d with %s%s%s%s", v->major, v->minor,
                   v->patch, host_cpu_level_name(level),
                   wide != NULL ? " (its matmul " : "",
                   wide != NULL ? wide : "", wide != NULL ? ")" : "");
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
    const dnnl_status_t status =
        dnnl.sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', m, n, k, alpha, A, lda, B,
                   ldb, beta, C, ldc);
    if (status != dnnl_success)
        return error_set(err,
                         status == dnnl_out_of_memory ? ERR_NOMEM : ERR_EXTERN,
                         "matrix product: [%d, %d] by [%d, %d]: oneDNN %s (%d)",
                         m, k, k, n, meaning(status), (int)status);
    return 0;
}

void gemm_dnnl_describe(char *buf, size_t cap)
{
    (void)snprintf(buf, cap, "%s", dnnl.text);
}
