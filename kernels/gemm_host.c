/* gemm_host.c - GEMM by OpenBLAS, which blas_host.c opens, and narrow products
 * of fp32, and with AVX-512 most wide ones, by oneDNN; other narrow ones by our
 * own code (gemm_narrow.h).
 *
 * Teams of different sizes would round differently: both libraries cut sums and
 * treat edges by the number of their threads. So each call of a library runs on
 * one thread, and our own OpenMP team, the kernels' as well, shares the calls:
 * a product is cut into pieces of C, k never.
 *
 * The number of threads decides about OpenBLAS's pieces of rows, which changes
 * no bit: its code for x86 takes GROUP rows or a divisor of it at a time, sums
 * a value over k in one order, and cuts k by its length alone. Whole groups are
 * the same wherever a piece begins, as long as a call does not pack its rows in
 * two parts. tests/unit/kernels/determinism.c looks at it, and so did some 190
 * random shapes for each of the cores Haswell, Sandybridge, Nehalem, Prescott,
 * Barcelona, Core2 and Atom of 0.3.21, and for the first three of 0.3.29. Its
 * columns, and both edges of oneDNN's sgemm, have no such groups and are cut by
 * the shape alone. oneDNN's matmul sums a value over k in one order wherever
 * its row is, if A is not transposed. */
#include <omp.h>

#include "kernels/blas_host.h"
#include "kernels/exec/exec_device.h"
#include "kernels/gemm_dnnl.h"
#include "kernels/gemm_narrow.h"
#include "kernels/gemm_wide_dnnl.h"
#include "kernels/host_cpu.h"

enum {
    GROUP = 24,       /* rows of OpenBLAS's code: 3 or 6 times 2, 4 or 8 */
    MOST_ROWS = 4032, /* of one call; with ten times as many no bit changed */
    /* A thread needs some 0.1 ms for so many products: with less, a team that
     * waits for a core on a busy machine costs more than it saves. */
    PIECE_WORK = 3 << 20,
    /* Each piece of rows packs all of B: for fewer, cut columns. */
    FEW_ROWS = 192,
    WIDE = 512, /* columns of such a piece */
    /* oneDNN's: cut into smaller ones, they take longer. */
    NARROW_ROWS = 512,
    NARROW_SUMS = 128,
    /* oneDNN's matmul: with more rows in a call long sums take longer. */
    WIDE_LEAST = 256,
    WIDE_ROWS = 512,
};

/* C[m,n] = alpha * op(A) op(B) + beta * C, of `size` bytes a value. */
struct product {
    bool ta, tb;
    int32_t m, n, k, lda, ldb, ldc;
    size_t size;
    double alpha, beta;
    const char *A, *B;
    char *C;
};

void host_gemm_threads(int32_t threads)
{
    omp_set_num_threads(threads);
    /* OpenBLAS adopts the OpenMP limit when it finds a change; run() sets that
     * to one as well, so that it finds none. */
    blas_opened()->set_num_threads(1);
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

/* Where oneDNN's matmul is faster than OpenBLAS, with AVX-512 alone
 * (docs/performance.md). Rows with gaps, and pieces of a transposed A, take
 * other code of it, which is slower and whose bits depend on the piece. */
static bool is_wide(const struct product *p)
{
    return p->size == sizeof(float) && !p->ta && p->m >= WIDE_LEAST &&
           p->n >= WIDE_LEAST && p->k >= WIDE_LEAST && p->lda == p->k &&
           p->ldb == (p->tb ? p->k : p->n) && p->ldc == p->n && p->alpha == 1 &&
           (p->beta == 0 || p->beta == 1);
}
#endif

/* The narrow ones that our own code multiplies: all of 16-bit types, which
 * the libraries take as copies in fp32, and with AVX-512 those of fp32 that it
 * was measured to be faster at (docs/performance.md). */
static bool is_ours(enum dtype dt, bool ta, bool tb, int32_t m, int32_t n,
                    int32_t k)
{
    enum { TOKENS = 256 };
    if (dt == DT_F64 || k < 1 || (ta && tb))
        return false;
    if (dt != DT_F32)
        return ta ? k >= TOKENS && (m <= 64 || n <= 64)
                  : m >= TOKENS && (n <= 64 || k <= 64);
    if (!host_cpu().avx512)
        return false;
    return ta ? k >= TOKENS && (n <= 32 || (m <= 32 && n >= 256))
              : m >= TOKENS && (n <= 16 || (tb && k <= 32));
}

/* ---- pieces ---------------------------------------------------------------
 */

/* How many pieces C is cut into, and what its rows and columns are cut at. */
struct cut {
    int32_t rows, cols, row_unit, col_unit;
};

static int32_t at_most(int64_t n, int64_t most)
{
    return (int32_t)(n < 1 ? 1 : n < most ? n : most);
}

/* in   most  rows of a piece, or a few more */
static struct cut cut_rows(const struct product *p, int32_t threads,
                           int32_t most)
{
    const int64_t work = (int64_t)p->m * p->n * p->k / PIECE_WORK;
    const int64_t groups = p->m / (2 * GROUP);
    const int32_t least = (p->m + most - 1) / most;
    int32_t rows = at_most(at_most(groups, work), threads);
    rows = (least + rows - 1) / rows * rows; /* as many for each thread */
    return (struct cut){rows, 1, GROUP, 1};
}

static struct cut cut_blas(const struct product *p, int32_t threads)
{
    const int64_t work = (int64_t)p->m * p->n * p->k / PIECE_WORK;
    if (p->m < FEW_ROWS && p->n >= 2 * WIDE)
        return (struct cut){1, at_most(work, p->n / WIDE), 1, 64};
    return cut_rows(p, threads, MOST_ROWS);
}

#if HAVE_DNNL
static struct cut cut_dnnl(const struct product *p)
{
    const int64_t work = (int64_t)p->m * p->n * p->k / PIECE_WORK;
    if (!p->ta)
        return (struct cut){at_most(work, at_most(p->m / NARROW_ROWS, p->m)), 1,
                            16, 1};
    if (p->m >= p->n)
        return (struct cut){at_most(work, at_most(p->m / NARROW_SUMS, p->m)), 1,
                            16, 1};
    return (struct cut){1, at_most(work, at_most(p->n / NARROW_SUMS, p->n)), 1,
                        16};
}
#endif

/* Where piece i of n begins: at a multiple of the unit. */
static int32_t begin_of(int32_t i, int32_t n, int32_t length, int32_t unit)
{
    return i == n ? length : (int32_t)((int64_t)(length / unit) * i / n) * unit;
}

static struct product piece_of(const struct product *p, const struct cut *c,
                               int32_t i)
{
    const int32_t row = i / c->cols, col = i % c->cols;
    const int64_t r = begin_of(row, c->rows, p->m, c->row_unit);
    const int64_t j = begin_of(col, c->cols, p->n, c->col_unit);
    struct product ret = *p;
    ret.m = begin_of(row + 1, c->rows, p->m, c->row_unit) - (int32_t)r;
    ret.n = begin_of(col + 1, c->cols, p->n, c->col_unit) - (int32_t)j;
    ret.A += (size_t)(p->ta ? r : r * p->lda) * p->size;
    ret.B += (size_t)(p->tb ? j * p->ldb : j) * p->size;
    ret.C += (size_t)(r * p->ldc + j) * p->size;
    return ret;
}

static int blas_piece(const struct product *p, struct error *err)
{
    const struct blas *blas = blas_opened();
    const enum CBLAS_TRANSPOSE a = p->ta ? CblasTrans : CblasNoTrans;
    const enum CBLAS_TRANSPOSE b = p->tb ? CblasTrans : CblasNoTrans;
    (void)err;
    if (p->size == sizeof(double))
        blas->dgemm(CblasRowMajor, a, b, p->m, p->n, p->k, p->alpha,
                    (const double *)(const void *)p->A, p->lda,
                    (const double *)(const void *)p->B, p->ldb, p->beta,
                    (double *)(void *)p->C, p->ldc);
    else
        blas->sgemm(CblasRowMajor, a, b, p->m, p->n, p->k, (float)p->alpha,
                    (const float *)(const void *)p->A, p->lda,
                    (const float *)(const void *)p->B, p->ldb, (float)p->beta,
                    (float *)(void *)p->C, p->ldc);
    return 0;
}

#if HAVE_DNNL
static int dnnl_piece(const struct product *p, struct error *err)
{
    return gemm_dnnl(p->ta, p->tb, p->m, p->n, p->k, (float)p->alpha,
                     (const float *)(const void *)p->A, p->lda,
                     (const float *)(const void *)p->B, p->ldb, (float)p->beta,
                     (float *)(void *)p->C, p->ldc, err);
}

static int wide_piece(const struct product *p, struct error *err)
{
    return gemm_wide_dnnl(p->tb, p->m, p->n, p->k,
                          (const float *)(const void *)p->A,
                          (const float *)(const void *)p->B, p->beta != 0,
                          (float *)(void *)p->C, err);
}
#endif

/* Threads of the team have no teams of their own. */
static int run(const struct product *p, struct cut cut, int32_t threads,
               int (*piece)(const struct product *p, struct error *err),
               struct error *err)
{
    const int32_t pieces = cut.rows * cut.cols;
    int rc = 0;
    omp_set_num_threads(1); /* for the libraries, which read it */
    if (pieces == 1)
        rc = piece(p, err);
    else {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int32_t i = 0; i < pieces; i++) {
            const struct product some = piece_of(p, &cut, i);
            struct error why = ERROR_INIT;
            if (piece(&some, &why) < 0) {
#pragma omp critical(gemm_host)
                {
                    if (err != NULL)
                        *err = why;
                    rc = -1;
                }
            }
        }
    }
    omp_set_num_threads(threads);
    return rc;
}

static int multiply(struct exec_device *exec, const struct product *p,
                    struct error *err)
{
    const int32_t threads = exec->base.threads > 0 ? exec->base.threads : 1;
    double begin_s = exec_begin(exec);
    int rc;
#if HAVE_DNNL
    if (p->size == sizeof(float) && is_narrow(p->ta, p->m, p->n, p->k) &&
        gemm_dnnl_is_open())
        rc = run(p, cut_dnnl(p), threads, dnnl_piece, err);
    else if (is_wide(p) && gemm_wide_dnnl_is_open())
        rc = run(p, cut_rows(p, threads, WIDE_ROWS), threads, wide_piece, err);
    else
#endif
        rc = run(p, cut_blas(p, threads), threads, blas_piece, err);
    exec_end(exec, DEVICE_GEMM, begin_s, 0);
    return rc;
}

static int multiply_ours(struct exec_device *exec, enum dtype dt,
                         const struct narrow *p, struct error *err)
{
    const int32_t threads =
        at_most((int64_t)p->m * p->n * p->k / PIECE_WORK, exec->base.threads);
    const double begin_s = exec_begin(exec);
#if HAVE_WIDE
    const int rc = host_cpu().avx512
                       ? wide_narrow_gemm(&exec->base, dt, p, threads, err)
                       : host_narrow_gemm(&exec->base, dt, p, threads, err);
#else
    const int rc = host_narrow_gemm(&exec->base, dt, p, threads, err);
#endif
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
    const struct product p = {ta,
                              tb,
                              m,
                              n,
                              k,
                              lda,
                              ldb,
                              ldc,
                              sizeof(float),
                              alpha,
                              beta,
                              (const char *)fa,
                              (const char *)fb,
                              (char *)fc};
    if (multiply(exec, &p, err) < 0)
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
    if (is_ours(dt, ta, tb, m, n, k)) {
        const struct narrow ours = {
            ta, tb, m, n, k, lda, ldb, ldc, (float)alpha, (float)beta, A, B, C};
        return multiply_ours((struct exec_device *)d, dt, &ours, err);
    }
    if (dt == DT_F16 || dt == DT_BF16)
        return multiply16(d, dt, ta, tb, m, n, k, alpha, A, lda, B, ldb, beta,
                          C, ldc, err);
    const struct product p = {
        ta,    tb,   m,
        n,     k,    lda,
        ldb,   ldc,  dt == DT_F32 ? sizeof(float) : sizeof(double),
        alpha, beta, A,
        B,     C};
    return multiply((struct exec_device *)d, &p, err);
}
