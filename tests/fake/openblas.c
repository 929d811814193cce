/* openblas.c - an OpenBLAS that is older than the processor, or broken.
 *
 * FAKE_OPENBLAS   the core type that it takes by itself, then words: wrong=TYPE
 *                 multiplies wrongly, crash=TYPE dies, hang=TYPE never returns
 * Any core type may be asked for by OPENBLAS_CORETYPE, as read when it is
 * opened. */
#include <cblas.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))

static char core[32];

__attribute__((constructor)) static void begin(void)
{
    const char *asked = getenv("OPENBLAS_CORETYPE");
    const char *own = getenv("FAKE_OPENBLAS");
    if (asked != NULL && asked[0] != '\0')
        (void)snprintf(core, sizeof(core), "%s", asked);
    else if (own != NULL)
        (void)sscanf(own, "%31s", core);
}

static bool does(const char *what)
{
    const char *words = getenv("FAKE_OPENBLAS");
    char word[64];
    (void)snprintf(word, sizeof(word), " %s=%s ", what, core);
    return words != NULL && strstr(words, word) != NULL;
}

PUBLIC char *openblas_get_config(void)
{
    static char text[] = "OpenBLAS 0.0.1 DYNAMIC_ARCH";
    return text;
}

PUBLIC char *openblas_get_corename(void)
{
    return core;
}

PUBLIC void openblas_set_num_threads(int n)
{
    (void)n;
}

#define GEMM(name, T)                                                          \
    PUBLIC void name(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta,          \
                     enum CBLAS_TRANSPOSE tb, blasint m, blasint n, blasint k, \
                     T alpha, const T *A, blasint lda, const T *B,             \
                     blasint ldb, T beta, T *C, blasint ldc)                   \
    {                                                                          \
        (void)order;                                                           \
        if (does("crash"))                                                     \
            (void)raise(SIGILL);                                               \
        while (does("hang"))                                                   \
            continue;                                                          \
        for (blasint i = 0; i < m; i++)                                        \
            for (blasint j = 0; j < n; j++) {                                  \
                T sum = 0;                                                     \
                for (blasint l = 0; l < k; l++)                                \
                    sum += A[ta == CblasTrans ? l * lda + i : i * lda + l] *   \
                           B[tb == CblasTrans ? j * ldb + l : l * ldb + j];    \
                C[i * ldc + j] = alpha * sum + beta * C[i * ldc + j];          \
            }                                                                  \
        /* The last of a large one alone, as a kernel's edge. */               \
        if (m > 64 && does("wrong"))                                           \
            C[(m - 1) * ldc + n - 1] += 1;                                     \
    }
GEMM(cblas_sgemm, float)
GEMM(cblas_dgemm, double)
