/* attention_band.h - the gradient of queries of attention, for the host: ds k,
 * where ds [y, x] belongs to queries y and keys x. A band is TILE_ROWS y. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_BAND_H
#define MGPU_KERNELS_LLM_ATTENTION_BAND_H

#include "kernels/llm/attention_softmax.h"

namespace
{

/* The scores that score_grads() has of a band: x from lo to hi - 1. */
struct across {
    int64_t lo, hi;

    template <class A, int W>
    static across of(const pairs<A> &p, int64_t y, vec<A, W>)
    {
        enum { M = TILE_ROWS, UNIT = GROUP_VECS * W };
        across r = {0, SIDE};
        if (p.whole)
            return r;
        while (r.lo < SIDE && (int64_t)p.hi[r.lo + UNIT - 1] <= y)
            r.lo += UNIT;
        while (r.hi > r.lo && (int64_t)p.lo[r.hi - UNIT] / M * M > y)
            r.hi -= UNIT;
        return r;
    }
};

/* v[i] += score [i, x] z, where that is a pair; all are, unless CUT. */
template <bool CUT, class A, int W, int M, int N>
FN void add_key(vec<A, W> (&v)[M][N], const A *score, const A *z,
                const pairs<A> &p, int64_t x, int64_t y)
{
    typedef vec<A, W> V;
    V row[N];

    UNROLL for (int j = 0; j < N; j++) row[j] = V::load(z + j * W);
    UNROLL for (int i = 0; i < M; i++)
    {
        if (CUT && ((int64_t)p.lo[x] > y + i || (int64_t)p.hi[x] <= y + i))
            continue;
        const V s = V::of(score[i * SIDE + x]);
        UNROLL for (int j = 0; j < N; j++) v[i][j] += s * row[j];
    }
}

/* v[i] = the sum over x of score [i, x] z [x], whose rows are `wide` apart: one
 * sum of every even x and one of the others, so that a vector a row is enough
 * to keep the processor busy. */
template <bool CUT, class A, int W, int M, int N>
FN void band(vec<A, W> (&v)[M][N], const A *score, const A *z, int64_t wide,
             const across &r, const pairs<A> &p, int64_t y)
{
    enum { SUMS = N == 1 ? 2 : 1 };
    vec<A, W> sum[SUMS][M][N];

    UNROLL for (int k = 0; k < SUMS; k++) UNROLL for (int i = 0; i < M; i++)
        UNROLL for (int j = 0; j < N; j++) sum[k][i][j] = vec<A, W>::of(0);
    for (int64_t x = r.lo; x < r.hi; x += SUMS)
        UNROLL for (int k = 0; k < SUMS; k++)
            add_key<CUT>(sum[k], score, z + (x + k) * wide, p, x + k, y);
    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        v[i][j] = SUMS == 1 ? sum[0][i][j] : sum[0][i][j] + sum[SUMS - 1][i][j];
}

/* n rows of `to`, of D values at most, += v. */
template <class A, int W, int M, int N>
FN void add_rows_of(A *to, int64_t ld, const vec<A, W> (&v)[M][N], int64_t n,
                    int64_t D)
{
    typedef vec<A, W> V;

    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
    {
        A *at = to + i * ld + j * W;
        A some[W];
        if (i >= n)
            continue;
        if ((j + 1) * W <= D) {
            (V::load(at) + v[i][j]).store(at);
            continue;
        }
        v[i][j].store(some);
        for (int64_t c = 0; c < D - j * W; c++)
            at[c] += some[c];
    }
}

/* N vectors of values of each query of a band. */
template <int N, class A, int W>
FN void add_band(const tile_room<A, W> &room, A *dq, int64_t ld, int64_t n,
                 int64_t d, int64_t y, const across &r, const pairs<A> &p)
{
    enum { M = TILE_ROWS };
    const A *score = room.score[1] + y * SIDE, *z = room.other[2] + d;
    vec<A, W> v[M][N];

    if (p.whole || room.finite[2])
        band<false>(v, score, z, room.wide, r, p, y);
    else
        band<true>(v, score, z, room.wide, r, p, y);
    add_rows_of(dq + y * ld + d, ld, v, n - y, room.D - d);
}

/* dq of n queries, by row stride ld, += ds k: score[1] and other[2]. */
template <class A, int W>
FN void add_bands(const tile_room<A, W> &room, A *dq, int64_t ld, int64_t n,
                  const pairs<A> &p)
{
    for (int64_t y = 0; y < n; y += TILE_ROWS) {
        const across r = across::of(p, y, vec<A, W>());
        int64_t d = 0;
        if (r.lo >= r.hi)
            continue;
        for (; d + W < room.D; d += 2 * W)
            add_band<2>(room, dq, ld, n, d, y, r, p);
        if (d < room.D)
            add_band<1>(room, dq, ld, n, d, y, r, p);
    }
}

} // namespace
#endif
