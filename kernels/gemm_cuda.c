/* gemm_cuda.c - GEMM by cuBLASLt. The only file that includes its header.
 *
 * cuBLAS is column major. A row-major C is a column-major C transposed, and (A
 * B)^T = B^T A^T: the operands swap places, and each keeps its own
 * transposition and leading dimension.
 *
 * cuBLASLt's descriptors of a product and its algorithm are determined once per
 * shape and cached: a network has some 150 shapes, and a query costs ten times
 * as much as a launch. The algorithm is the first one of the library's
 * heuristic, which depends on the shape, the GPU and the library alone. With
 * tune() it is the fastest of the first few, timed on the operands of the first
 * call; another run may choose another, so that its results may differ in
 * rounding. A product that adds to C is timed into memory that is taken for it
 * and given back; where there is none left, it has the first algorithm.
 *
 * fp32 is computed in fp32 unless the job asks for TF32: the job decides about
 * 10 bits of fraction, not the library. 16-bit factors are summed in fp32, also
 * between the parts of a product that is split along k: algorithms that add
 * such parts in the type of the result are excluded. The remaining ones add in
 * a fixed order, so that the same algorithm gives the same bits. The workspace
 * is preallocated: a step allocates nothing. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/exec/exec_cuda.h"

enum {
    /* What NVIDIA recommends for compute capability 9.0. */
    WORKSPACE_BYTES = 32 << 20,
    CANDIDATES = 8, /* how many are timed */
    ROUNDS = 5,     /* of each; the fastest counts */
    BUCKETS = 256,
    ALIGNED_MOST = 256, /* larger alignment gains nothing */
};

/* The parameters that determine an algorithm; compared byte by byte. */
struct shape {
    int32_t dt, ta, tb, m, n, k, lda, ldb, ldc;
    int32_t adds;     /* beta is not 0 */
    int32_t tf32;     /* of an fp32 product */
    int32_t align;    /* bytes, of the least aligned operand */
    int32_t is_tuned; /* by time */
};

struct plan {
    struct plan *next; /* in its bucket */
    struct shape of;
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c; /* as cuBLAS has them */
    cublasLtMatmulAlgo_t algo;
};

/* The faster of two variants of a product; a network has some 50. */
enum { VARIANTS_MOST = 256 };
struct variant {
    int64_t key[VARIANT_KEY];
    bool second;
};

struct cuda_gemm {
    cublasLtHandle_t lt;
    void *workspace; /* on the device */
    bool tf32, tunes;
    struct variant variants[VARIANTS_MOST];
    int n_variants;
    cudaEvent_t start, end;
    struct plan *buckets[BUCKETS];
};

/* The operands of one call, as cuBLAS has them. */
struct operands {
    const void *a, *b;
    const void *c; /* what beta multiplies */
    void *d;       /* the result; c, but for candidates of one that adds */
    const void *alpha, *beta; /* host, of the scale type */
    cudaStream_t stream;
};

static int blas_check(cublasStatus_t s, struct error *err)
{
    if (s == CUBLAS_STATUS_SUCCESS)
        return 0;
    return error_set(err, ERR_EXTERN, "matrix product: cuBLAS: %s",
                     cublasLtGetStatusString(s));
}

static void plan_free(struct plan *p)
{
    if (!p)
        return;
    if (p->c)
        (void)cublasLtMatrixLayoutDestroy(p->c);
    if (p->b)
        (void)cublasLtMatrixLayoutDestroy(p->b);
    if (p->a)
        (void)cublasLtMatrixLayoutDestroy(p->a);
    if (p->op)
        (void)cublasLtMatmulDescDestroy(p->op);
    free(p);
}

void cuda_gemm_close(struct cuda_device *cuda)
{
    struct cuda_gemm *g = cuda->gemm;

    if (!g)
        return;
    for (int i = 0; i < BUCKETS; i++)
        while (g->buckets[i]) {
            struct plan *p = g->buckets[i];
            g->buckets[i] = p->next;
            plan_free(p);
        }
    if (g->end)
        (void)cudaEventDestroy(g->end);
    if (g->start)
        (void)cudaEventDestroy(g->start);
    if (g->lt)
        (void)cublasLtDestroy(g->lt);
    (void)cudaFree(g->workspace);
    free(g);
    cuda->gemm = NULL;
}

int cuda_gemm_open(struct cuda_device *cuda, struct error *err)
{
    struct cuda_gemm *g = calloc(1, sizeof(*g));

    if (!g)
        return error_set(err, ERR_NOMEM, "gemm");
    cuda->gemm = g; /* the caller closes */
    if (blas_check(cublasLtCreate(&g->lt), err) < 0 ||
        cuda_check((int)cudaEventCreate(&g->start), "gemm", err) < 0 ||
        cuda_check((int)cudaEventCreate(&g->end), "gemm", err) < 0)
        return -1;
    return cuda_check((int)cudaMalloc(&g->workspace, WORKSPACE_BYTES),
                      "gemm workspace", err);
}

int cuda_allow_tf32(struct device *d, bool allow, struct error *err)
{
    (void)err;
    ((struct cuda_device *)d)->gemm->tf32 = allow;
    return 0;
}

int cuda_tune(struct device *d, bool on, struct error *err)
{
    (void)err;
    ((struct cuda_device *)d)->gemm->tunes = on;
    return 0;
}

/* ---- cached plans --------------------------------------------------------
 */

static cudaDataType_t type_of(int32_t dt)
{
    static const cudaDataType_t types[DT_N] = {[DT_F64] = CUDA_R_64F,
                                               [DT_F32] = CUDA_R_32F,
                                               [DT_F16] = CUDA_R_16F,
                                               [DT_BF16] = CUDA_R_16BF};
    return types[dt];
}

static int set_op(struct plan *p, cublasLtMatmulDescAttributes_t what,
                  bool transposed, struct error *err)
{
    const cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;

    return blas_check(
        cublasLtMatmulDescSetAttribute(p->op, what, &op, sizeof(op)), err);
}

/* A row-major matrix of rows by cols is a column-major one of cols by rows. */
static int set_layout(cublasLtMatrixLayout_t *ret, const struct shape *s,
                      int32_t rows, int32_t cols, int32_t ld, struct error *err)
{
    return blas_check(cublasLtMatrixLayoutCreate(ret, type_of(s->dt),
                                                 (uint64_t)cols, (uint64_t)rows,
                                                 ld),
                      err);
}

static int describe(struct plan *p, struct error *err)
{
    const struct shape *s = &p->of;
    cublasComputeType_t compute = s->dt == DT_F64 ? CUBLAS_COMPUTE_64F
                                  : s->tf32       ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                  : CUBLAS_COMPUTE_32F;
    cudaDataType_t scale = s->dt == DT_F64 ? CUDA_R_64F : CUDA_R_32F;

    if (blas_check(cublasLtMatmulDescCreate(&p->op, compute, scale), err) < 0 ||
        set_op(p, CUBLASLT_MATMUL_DESC_TRANSA, s->tb, err) < 0 ||
        set_op(p, CUBLASLT_MATMUL_DESC_TRANSB, s->ta, err) < 0)
        return -1;
    if (set_layout(&p->a, s, s->tb ? s->n : s->k, s->tb ? s->k : s->n, s->ldb,
                   err) < 0 ||
        set_layout(&p->b, s, s->ta ? s->k : s->m, s->ta ? s->m : s->k, s->lda,
                   err) < 0)
        return -1;
    return set_layout(&p->c, s, s->m, s->n, s->ldc, err);
}

static int prefer(cublasLtMatmulPreference_t pref, const struct shape *s,
                  struct error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t operands[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t bytes = WORKSPACE_BYTES;
    const uint32_t align = (uint32_t)s->align;
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;

    if (blas_check(cublasLtMatmulPreferenceSetAttribute(
                       pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                       sizeof(bytes)),
                   err) < 0 ||
        blas_check(cublasLtMatmulPreferenceSetAttribute(
                       pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                       &schemes, sizeof(schemes)),
                   err) < 0)
        return -1;
    for (size_t i = 0; i < sizeof(operands) / sizeof(operands[0]); i++)
        if (blas_check(cublasLtMatmulPreferenceSetAttribute(
                           pref, operands[i], &align, sizeof(align)),
                       err) < 0)
            return -1;
    return 0;
}

/* The algorithms that the library suggests, the best first. */
static int ask(struct cuda_gemm *g, struct plan *p,
               cublasLtMatmulHeuristicResult_t ret[CANDIDATES], int *ret_n,
               struct error *err)
{
    cublasLtMatmulPreference_t pref = NULL;
    const struct shape *s = &p->of;
    int n = 0;

    if (blas_check(cublasLtMatmulPreferenceCreate(&pref), err) < 0)
        return -1;
    int rc = prefer(pref, s, err);
    if (rc == 0)
        rc = blas_check(cublasLtMatmulAlgoGetHeuristic(
                            g->lt, p->op, p->a, p->b, p->c, p->c, pref,
                            s->is_tuned ? CANDIDATES : 1, ret, &n),
                        err);
    (void)cublasLtMatmulPreferenceDestroy(pref);
    if (rc == 0 && (n < 1 || ret[0].state != CUBLAS_STATUS_SUCCESS))
        rc = error_set(err, ERR_EXTERN,
                       "matrix product: cuBLAS has no algorithm for [%d, %d] "
                       "by [%d, %d]: another train.precision may have one",
                       s->m, s->k, s->k, s->n);
    *ret_n = n;
    return rc;
}

static int run(struct cuda_gemm *g, const struct plan *p,
               const cublasLtMatmulAlgo_t *algo, const struct operands *x,
               struct error *err)
{
    return blas_check(cublasLtMatmul(g->lt, p->op, x->alpha, x->a, p->a, x->b,
                                     p->b, x->beta, x->c, p->c, x->d, p->c,
                                     algo, g->workspace, WORKSPACE_BYTES,
                                     x->stream),
                      err);
}

/* The fastest of ROUNDS runs, after one that loads the code. */
static int measure(struct cuda_gemm *g, const struct plan *p,
                   const cublasLtMatmulAlgo_t *algo, const struct operands *x,
                   float *ret_ms, struct error *err)
{
    float best = -1;
    for (int i = -1; i < ROUNDS; i++) {
        float ms = 0;
        if (cuda_check((int)cudaEventRecord(g->start, x->stream), "gemm", err) <
                0 ||
            run(g, p, algo, x, err) < 0 ||
            cuda_check((int)cudaEventRecord(g->end, x->stream), "gemm", err) <
                0 ||
            cuda_check((int)cudaEventSynchronize(g->end), "gemm", err) < 0 ||
            cuda_check((int)cudaEventElapsedTime(&ms, g->start, g->end), "gemm",
                       err) < 0)
            return -1;
        if (i >= 0 && (best < 0 || ms < best))
            best = ms;
    }
    *ret_ms = best;
    return 0;
}

/* The fastest of `found`, which all compute the same into the same place. */
static int fastest(struct cuda_gemm *g, const struct plan *p,
                   const cublasLtMatmulHeuristicResult_t *found, int n,
                   const struct operands *x, int *ret_best, struct error *err)
{
    float least = 0;
    int best = 0;

    for (int i = 0; i < n; i++) {
        float ms = 0;
        if (found[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        if (measure(g, p, &found[i].algo, x, &ms, err) < 0)
            return -1;
        if (i == 0 || ms < least) {
            least = ms;
            best = i;
        }
    }
    *ret_best = best;
    return 0;
}

/* Room for a result; NULL: there is none. The plug-in has no dtype_bytes(). */
static void *take_room(const struct shape *s)
{
    static const size_t bytes[DT_N] = {
        [DT_F64] = 8, [DT_F32] = 4, [DT_F16] = 2, [DT_BF16] = 2};
    const size_t values = (size_t)(s->m - 1) * (size_t)s->ldc + (size_t)s->n;
    void *p = NULL;

    if (cudaMalloc(&p, values * bytes[s->dt]) != cudaSuccess) {
        (void)cudaGetLastError(); /* else the next launch would find it */
        return NULL;
    }
    return p;
}

static int choose(struct cuda_gemm *g, struct plan *p, const struct operands *x,
                  bool may_run, struct error *err)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES] = {0};
    struct operands to = *x;
    void *room = NULL;
    int n = 0, best = 0, rc = 0;

    if (ask(g, p, found, &n, err) < 0)
        return -1;
    /* In place the second run would add to the result of the first. */
    if (may_run && n > 1 && p->of.adds)
        to.d = room = take_room(&p->of);
    if (may_run && n > 1 && to.d != NULL)
        rc = fastest(g, p, found, n, &to, &best, err);
    (void)cudaFree(room);
    p->algo = found[best].algo;
    return rc;
}

/* FNV-1a */
static uint32_t hash(const struct shape *s)
{
    uint32_t word[sizeof(*s) / 4], h = 2166136261u;

    memcpy(word, s, sizeof(word));
    for (size_t i = 0; i < sizeof(word) / sizeof(*word); i++)
        h = (h ^ word[i]) * 16777619u;
    return h ^ h >> 16; /* sizes are multiples of 64: their low bits are 0 */
}

static const struct plan *plan_of(struct cuda_gemm *g, const struct shape *s,
                                  const struct operands *x, bool may_run,
                                  struct error *err)
{
    struct plan **bucket = &g->buckets[hash(s) % BUCKETS];

    for (struct plan *p = *bucket; p; p = p->next)
        if (memcmp(&p->of, s, sizeof(*s)) == 0)
            return p;
    struct plan *p = calloc(1, sizeof(*p));
    if (!p) {
        (void)error_set(err, ERR_NOMEM, "gemm");
        return NULL;
    }
    p->of = *s;
    if (describe(p, err) < 0 || choose(g, p, x, may_run, err) < 0) {
        plan_free(p);
        return NULL;
    }
    p->next = *bucket;
    *bucket = p;
    return p;
}

/* ---- the product ---------------------------------------------------------
 */

/* The largest power of two that every address is a multiple of. */
static int32_t align_of(const void *a, const void *b, const void *c)
{
    uintptr_t bits = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c | ALIGNED_MOST;

    return (int32_t)(bits & (~bits + 1));
}

int cuda_gemm(struct device *d, enum dtype dt, bool ta, bool tb, int32_t m,
              int32_t n, int32_t k, double alpha, const void *A, int32_t lda,
              const void *B, int32_t ldb, double beta, void *C, int32_t ldc,
              struct error *err)
{
    struct cuda_device *cuda = (struct cuda_device *)d;
    struct cuda_gemm *g = cuda->gemm;
    float alpha32 = (float)alpha, beta32 = (float)beta;
    bool is_f64 = dt == DT_F64;

    if (gemm_check(dt, ta, tb, m, n, k, lda, ldb, ldc, err) < 0)
        return -1;
    if (m == 0 || n == 0)
        return 0;
    if (k == 0) /* cuBLASLt rejects k = 0: C = beta C */
        return cuda_gemm(d, dt, false, false, m, n, 1, 0, C, 1, C, n, beta, C,
                         ldc, err);
    const struct shape s = {.dt = (int32_t)dt,
                            .ta = ta,
                            .tb = tb,
                            .m = m,
                            .n = n,
                            .k = k,
                            .lda = lda,
                            .ldb = ldb,
                            .ldc = ldc,
                            .adds = beta != 0,
                            .tf32 = dt == DT_F32 && g->tf32,
                            .align = align_of(A, B, C),
                            .is_tuned = g->tunes};
    const struct operands x = {.a = B,
                               .b = A,
                               .c = C,
                               .d = C,
                               .alpha =
                                   is_f64 ? (void *)&alpha : (void *)&alpha32,
                               .beta = is_f64 ? (void *)&beta : (void *)&beta32,
                               .stream = (cudaStream_t)cuda->exec.stream};
    const struct plan *p = plan_of(g, &s, &x, !cuda->captures, err);
    return p ? run(g, p, &p->algo, &x, err) : -1;
}

/* ---- the product, or a kernel of ours ------------------------------------
 */

/* The fastest of ROUNDS runs, after one that loads the code and chooses. */
static int time_variant(struct cuda_device *cuda,
                        int (*fn)(void *arg, bool second, struct error *err),
                        void *arg, bool second, float *ret_ms,
                        struct error *err)
{
    struct cuda_gemm *g = cuda->gemm;
    cudaStream_t stream = (cudaStream_t)cuda->exec.stream;
    float best = -1;
    for (int i = -1; i < ROUNDS; i++) {
        float ms = 0;
        if (i < 0 && fn(arg, second, err) < 0)
            return -1;
        if (cuda_check((int)cudaEventRecord(g->start, stream), "gemm", err) <
                0 ||
            fn(arg, second, err) < 0 ||
            cuda_check((int)cudaEventRecord(g->end, stream), "gemm", err) < 0 ||
            cuda_check((int)cudaEventSynchronize(g->end), "gemm", err) < 0 ||
            cuda_check((int)cudaEventElapsedTime(&ms, g->start, g->end), "gemm",
                       err) < 0)
            return -1;
        best = best < 0 || ms < best ? ms : best;
    }
    *ret_ms = best;
    return 0;
}

int cuda_faster(struct exec_device *exec, const int64_t key[VARIANT_KEY],
                int (*variant)(void *arg, bool second, struct error *err),
                void *arg, bool *ret_second, struct error *err)
{
    struct cuda_device *cuda = (struct cuda_device *)exec;
    struct cuda_gemm *g = cuda->gemm;
    float first_ms = 0, second_ms = 0;

    *ret_second = false;
    if (!g->tunes)
        return 0;
    for (int i = 0; i < g->n_variants; i++)
        if (memcmp(g->variants[i].key, key, sizeof(g->variants[i].key)) == 0) {
            *ret_second = g->variants[i].second;
            return 0;
        }
    if (cuda->captures || g->n_variants == VARIANTS_MOST)
        return 0;
    if (time_variant(cuda, variant, arg, false, &first_ms, err) < 0 ||
        time_variant(cuda, variant, arg, true, &second_ms, err) < 0)
        return -1;
    struct variant *w = &g->variants[g->n_variants++];
    memcpy(w->key, key, sizeof(w->key));
    w->second = *ret_second = second_ms < first_ms;
    return 0;
}
