/* narrow.cu - for the host: products with an edge of a few values (see
 * kernels/gemm_narrow.h).
 *
 * A library packs both factors for blocks that such products do not fill, and
 * knows no 16-bit types here. The large factor is read once, in place and in
 * order, so that memory sets the pace; the small one is put in order, in fp32.
 *
 *   op(A) = A    GROUP rows of A meet B, which is in panels of a few vectors of
 *                columns. 16-bit rows are widened once for all panels.
 *   op(A) = A^T  a sum over k, the tokens: TILE_ROWS of them at a time add to
 * the sums, [few, many], which stay in the nearest cache.
 *
 * A value is summed over k in one order, wherever its row or column is: so the
 * bits do not depend on how the threads share the work. */
#include "kernels/exec/simd_ends.h"
#include "kernels/exec/simd_tile.h"
#include "kernels/gemm_narrow.h"

#ifndef EXEC_CUDA
namespace
{

enum {
    GROUP = 8,         /* rows */
    PANEL = 3,         /* vectors of columns, at most */
    NEAR_VALUES = 8192 /* sums of a piece: 32 kB */
};

inline int64_t up_to(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* n values of x in fp32. */
template <class T, int W> FN void widen_row(float *to, const T *x, int64_t n)
{
    for (int64_t i = 0; i < n; i += W)
        store_end(load_end<float, W>(x + i, n - i), to + i, n - i);
}

/* ---- rows ----------------------------------------------------------------
 */

/* B [k, n], whose (i, j) is at B[i * down + j * across], in panels
 * [k, columns]; columns past n are 0. */
template <class T, int W>
void order(float *to, const T *B, int64_t k, int64_t n, int64_t down,
           int64_t across)
{
    const int64_t all = up_to(n, W);

    for (int64_t c = 0; c < all; c += PANEL * W) {
        const int64_t wide = all - c < PANEL * W ? all - c : PANEL * W;
        float *at = to + c * k;
        for (int64_t i0 = 0; i0 < k; i0 += 16) { /* in the nearest cache */
            const int64_t end = i0 + 16 < k ? i0 + 16 : k;
            for (int64_t j = 0; j < wide; j++)
                for (int64_t i = i0; i < end; i++)
                    at[i * wide + j] =
                        c + j < n ? (float)B[i * down + (c + j) * across] : 0;
        }
    }
}

/* Row r of C, from column c on: n of the sums. */
template <class T, int W>
FN void put_row(const narrow &p, int64_t r, int64_t c, const float *sums,
                int64_t n)
{
    typedef vec<float, W> V;

    for (int64_t j = 0; j < n; j += W) {
        T *to = (T *)p.C + r * p.ldc + c + j;
        V s = V::load(sums + j) * p.alpha;
        if (p.beta != 0)
            s += load_end<float, W>(to, n - j) * p.beta;
        store_end(s, to, n - j);
    }
}

/* Rows r to r + M of C, N vectors of columns from c on. */
template <class T, int W, int M, int N>
FN void tile_of(const narrow &p, const float *a, int64_t lda, int64_t r,
                int64_t c, const float *panel)
{
    typedef vec<float, W> V;
    V v[M][N];
    T *C = (T *)p.C + r * p.ldc + c;

    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        v[i][j] = V::of(0);
    tile(v, a, lda, 1, panel, N * W, p.k);
    if (p.n - c < N * W) {
        float sums[M][N * W];
        UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
            v[i][j]
                .store(&sums[i][j * W]);
        for (int i = 0; i < M; i++)
            put_row<T, W>(p, r + i, c, sums[i], p.n - c);
    } else if (p.beta != 0) {
        UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        {
            T *to = C + i * p.ldc + j * W;
            (v[i][j] * p.alpha + V::load(to) * p.beta).store(to);
        }
    } else {
        UNROLL for (int i = 0; i < M; i++)
            UNROLL for (int j = 0; j < N; j++)(v[i][j] * p.alpha)
                .store(C + i * p.ldc + j * W);
    }
}

/* ROWS rows, as many at once as the registers hold the sums of. */
template <class T, int W, int N, int ROWS>
FN void panel_of(const narrow &p, const float *a, int64_t lda, int64_t r,
                 int64_t c, const float *panel)
{
    constexpr int most = N == 1 ? (int)GROUP : (int)TILE_ROWS;
    constexpr int M = ROWS < most ? ROWS : most;

    for (int i = 0; i < ROWS; i += M)
        tile_of<T, W, M, N>(p, a + i * lda, lda, r + i, c, panel);
}

template <class T, int W, int ROWS>
FN void some_rows(const narrow &p, const float *ordered, float *room, int64_t r)
{
    const int64_t all = up_to(p.n, W);
    const T *A = (const T *)p.A + r * p.lda;
    const float *a;
    int64_t lda = p.lda;

    if constexpr (sizeof(T) == sizeof(float)) {
        a = A;
    } else {
        for (int i = 0; i < ROWS; i++)
            widen_row<T, W>(room + i * (int64_t)p.k, A + i * lda, p.k);
        a = room;
        lda = p.k;
    }
    for (int64_t c = 0; c < all; c += PANEL * W) {
        const float *panel = ordered + c * p.k;
        if (all - c >= 3 * W)
            panel_of<T, W, 3, ROWS>(p, a, lda, r, c, panel);
        else if (all - c == 2 * W)
            panel_of<T, W, 2, ROWS>(p, a, lda, r, c, panel);
        else
            panel_of<T, W, 1, ROWS>(p, a, lda, r, c, panel);
    }
}

template <class T, int W>
int by_rows(struct device *d, const narrow &p, int64_t threads,
            struct error *err)
{
    const int64_t size = up_to(p.n, W) * p.k;
    /* Of each thread: rows of A as floats, unless they are. */
    const int64_t own = sizeof(T) == sizeof(float) ? 0 : (int64_t)GROUP * p.k;
    const int64_t groups = (p.m + GROUP - 1) / GROUP;
    const int64_t teams = threads < groups ? threads : groups;
    float *ordered = scratch<float>(d, size + teams * own, err);

    if (!ordered)
        return -1;
    order<T, W>(ordered, (const T *)p.B, p.k, p.n, p.tb ? 1 : p.ldb,
                p.tb ? p.ldb : 1);
    by_threads(d, teams, [&](int64_t i) {
        float *room = ordered + size + i * own;
        const int64_t end = groups * (i + 1) / teams * GROUP;
        const int64_t hi = end < p.m ? end : p.m;
        int64_t r = groups * i / teams * GROUP;
        for (; r + GROUP <= hi; r += GROUP)
            some_rows<T, W, GROUP>(p, ordered, room, r);
        for (; r < hi; r++)
            some_rows<T, W, 1>(p, ordered, room, r);
    });
    return 0;
}

/* ---- sums over k ---------------------------------------------------------
 */

/* sum [few, ld] += the products of N tokens, in K vectors of columns from c on.
 * h [N, few] is in fp32; `left` columns of x remain. */
template <class T, int W, int N, int K>
FN void add_columns(float *sum, int64_t ld, int64_t few, const float *h,
                    int64_t ldh, const T *x, int64_t ldx, int64_t left)
{
    typedef vec<float, W> V;
    V of[N][K];

    UNROLL for (int t = 0; t < N; t++) UNROLL for (int j = 0; j < K; j++)
        of[t][j] = load_end<float, W>(x + t * ldx + j * W, left - j * W);
    for (int64_t i = 0; i < few; i++) {
        float *to = sum + i * ld;
        V s[K];
        UNROLL for (int j = 0; j < K; j++) s[j] = of[0][j] * h[i];
        UNROLL for (int t = 1; t < N; t++) UNROLL for (int j = 0; j < K; j++)
            s[j] += of[t][j] * h[t * ldh + i];
        UNROLL for (int j = 0; j < K; j++)(V::load(to + j * W) + s[j])
            .store(to + j * W);
    }
}

/* The same of all n <= ld columns. */
template <class T, int W, int N>
FN void add_tokens(float *sum, int64_t ld, int64_t few, const float *h,
                   int64_t ldh, const T *x, int64_t ldx, int64_t n)
{
    int64_t c = 0;

    for (; c + W < n; c += 2 * W)
        add_columns<T, W, N, 2>(sum + c, ld, few, h, ldh, x + c, ldx, n - c);
    if (c < n)
        add_columns<T, W, N, 1>(sum + c, ld, few, h, ldh, x + c, ldx, n - c);
}

/* Where the two factors, and the result, of a sum over k are. */
template <class T> struct summed {
    const T *few, *many; /* [k, n_few], [k, n_many] */
    int64_t n_few, n_many, ld_few, ld_many;
    int64_t down, across; /* of C: from one of the few to the next, many */
};

template <class T> summed<T> summed_of(const narrow &p)
{
    const T *A = (const T *)p.A, *B = (const T *)p.B;

    if (p.m <= p.n)
        return {A, B, p.m, p.n, p.lda, p.ldb, p.ldc, 1};
    return {B, A, p.n, p.m, p.ldb, p.lda, 1, p.ldc};
}

/* C of columns c to c + n from their sums [n_few, ld]. */
template <class T, int W>
void put_sums(const narrow &p, const summed<T> &s, int64_t c, int64_t n,
              const float *sum, int64_t ld)
{
    typedef vec<float, W> V;
    T *C = (T *)p.C + c * s.across;

    for (int64_t i = 0; i < s.n_few; i++)
        if (s.across == 1) {
            for (int64_t j = 0; j < n; j += W) {
                T *to = C + i * s.down + j;
                V v = V::load(sum + i * ld + j) * p.alpha;
                if (p.beta != 0)
                    v += load_end<float, W>(to, n - j) * p.beta;
                store_end(v, to, n - j);
            }
        } else {
            for (int64_t j = 0; j < n; j++) {
                T *to = C + i * s.down + j * s.across;
                float v = sum[i * ld + j] * p.alpha;
                if (p.beta != 0)
                    v += (float)*to * p.beta;
                *to = (T)v;
            }
        }
}

template <class T, int W>
int by_tokens(struct device *d, const narrow &p, int64_t threads,
              struct error *err)
{
    const summed<T> s = summed_of<T>(p);
    const bool is_fp32 = sizeof(T) == sizeof(float);
    const int64_t near = up_to(NEAR_VALUES / s.n_few, W),
                  share = up_to((s.n_many + threads - 1) / threads, W),
                  piece = near < share ? near : share,
                  pieces = (s.n_many + piece - 1) / piece;
    const int64_t size = is_fp32 ? 0 : up_to(p.k * s.n_few, W);
    float *few =
        scratch<float>(d, size + up_to(s.n_many, piece) * s.n_few, err);

    if (!few)
        return -1;
    float *sums = few + size;
    const float *h = is_fp32 ? (const float *)(const void *)s.few : few;
    const int64_t ldh = is_fp32 ? s.ld_few : s.n_few;
    if (!is_fp32)
        for (int64_t t = 0; t < p.k; t++)
            widen_row<T, W>(few + t * s.n_few, s.few + t * s.ld_few, s.n_few);
    by_threads(d, pieces, [&](int64_t i) {
        const int64_t c = i * piece,
                      n = s.n_many - c < piece ? s.n_many - c : piece;
        float *sum = sums + c * s.n_few;
        const T *x = s.many + c;
        memset(sum, 0, (size_t)(piece * s.n_few) * sizeof(float));
        int64_t t = 0;
        for (; t + TILE_ROWS <= p.k; t += TILE_ROWS)
            add_tokens<T, W, TILE_ROWS>(sum, piece, s.n_few, h + t * ldh, ldh,
                                        x + t * s.ld_many, s.ld_many, n);
        for (; t < p.k; t++)
            add_tokens<T, W, 1>(sum, piece, s.n_few, h + t * ldh, ldh,
                                x + t * s.ld_many, s.ld_many, n);
        put_sums<T, W>(p, s, c, n, sum, piece);
    });
    return 0;
}

template <class T>
int multiply(struct device *d, const narrow &p, int64_t threads,
             struct error *err)
{
    constexpr int W = widest<float>;

    if (p.ta)
        return by_tokens<T, W>(d, p, threads, err);
    if constexpr (W > 8)
        if (p.n <= 8)
            return by_rows<T, 8>(d, p, threads, err);
    return by_rows<T, W>(d, p, threads, err);
}

} // namespace

#ifdef MGPU_WIDE
int wide_narrow_gemm
#else
int host_narrow_gemm
#endif
    (struct device *d, enum dtype dt, const struct narrow *p, int32_t threads,
     struct error *err)
{
    switch (dt) {
    case DT_F32:
        return multiply<float>(d, *p, threads, err);
    case DT_F16:
        return multiply<f16>(d, *p, threads, err);
    case DT_BF16:
        return multiply<bf16>(d, *p, threads, err);
    default:
        return error_set(err, ERR_INVAL, "narrow product: of type %d", (int)dt);
    }
}
#endif
