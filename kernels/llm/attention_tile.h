/* attention_tile.h - a tile of attention for the host: its arrays, and the
 * products on them.
 *
 * A tile of SIDE tokens x, queries or keys, meets the tokens y of the other
 * kind, SIDE at a time. The tile's own factor is turned, [D, SIDE]: so a vector
 * holds one score of neighbouring x, the softmax of a query is a loop over y
 * without sums across a vector, and the scores [y, x] are already in the order
 * in which the next product reads them. Each x has the span of y that it is
 * paired with. Scores are computed for whole groups of x; the sums over y that
 * follow, turned like the factor, include exactly the pairs of the spans. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_TILE_H
#define MGPU_KERNELS_LLM_ATTENTION_TILE_H

#include "kernels/exec/simd_tile.h"
#include "kernels/llm/attention_span.h"

namespace
{

/* What a block works in: one part of the op's scratch. */
template <class A, int W> struct tile_room {
    A *turned[2];    /* [D, SIDE]: the tile's factors */
    A *other[2];     /* [SIDE, wide]: those of y */
    A *sum[2];       /* [wide, SIDE] */
    A *score[2];     /* [y, x] */
    A *column[4];    /* [SIDE] */
    int64_t D, wide; /* a head's values, and in whole vectors and tiles */

    static int64_t padded(int64_t D)
    {
        const int64_t unit = W > TILE_ROWS ? W : (int)TILE_ROWS;
        return (D + unit - 1) / unit * unit;
    }
    static int64_t size(int64_t D)
    {
        return 2 * SIDE * (D + 2 * padded(D) + SIDE) + 4 * SIDE;
    }
    tile_room(A *at, int64_t values) : D(values), wide(padded(values))
    {
        for (int i = 0; i < 2; i++, at += SIDE * D)
            turned[i] = at;
        for (int i = 0; i < 2; i++, at += SIDE * wide)
            other[i] = at;
        for (int i = 0; i < 2; i++, at += SIDE * wide)
            sum[i] = at;
        for (int i = 0; i < 2; i++, at += SIDE * SIDE)
            score[i] = at;
        for (int i = 0; i < 4; i++, at += SIDE)
            column[i] = at;
    }
    void clear_sums() const
    {
        memset(sum[0], 0, sizeof(A) * SIDE * (size_t)wide);
        memset(sum[1], 0, sizeof(A) * SIDE * (size_t)wide);
    }
};

/* to [D, SIDE] = scale * x^T of n rows; the other columns are 0. */
template <class A, class T>
FN void turn(A *to, const T *x, int64_t ld, int64_t n, int64_t D, A scale)
{
    for (int64_t i = 0; i < SIDE; i++)
        for (int64_t d = 0; d < D; d++)
            to[d * SIDE + i] = i < n ? (A)x[i * ld + d] * scale : A(0);
}

/* to [SIDE, wide] = x of n rows. What is beyond them, or beyond D, may be
 * anything: it only reaches scores and sums that are not used. */
template <class A, int W, class T>
FN void copy_rows(const tile_room<A, W> &room, A *to, const T *x, int64_t ld,
                  int64_t n)
{
    enum { HALF = HALF_OF(W) };

    for (int64_t i = 0; i < n; i++, to += room.wide, x += ld) {
        int64_t d = 0;
        for (; d + W <= room.D; d += W)
            vec<A, W>::load(x + d).store(to + d);
        for (; d + HALF <= room.D; d += HALF)
            vec<A, HALF>::load(x + d).store(to + d);
        for (; d < room.D; d++)
            to[d] = (A)x[d];
    }
}

/* score [y, x] = other . turned, of all pairs and some others. */
template <class A, int W>
FN void score_products(const tile_room<A, W> &room, int which,
                       const pairs<A> &p)
{
    enum { M = TILE_ROWS, N = GROUP_VECS };

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        for (int64_t y = r.lo / M * M; y < r.hi; y += M) {
            vec<A, W> v[M][N];
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) v[i][j] = vec<A, W>::of(0);
            tile(v, room.other[which] + y * room.wide, room.wide, 1,
                 room.turned[which] + x, SIDE, room.D);
            A *to = room.score[which] + y * SIDE + x;
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) v[i][j]
                    .store(to + i * SIDE + j * W);
        }
    }
}

/* v += z^T score of lo <= y < hi, where y is in the span of x. */
template <class A, int W, int M, int N>
FN void tile_of_pairs(vec<A, W> (&v)[M][N], const A *z, int64_t wide,
                      const A *score, const pairs<A> &p, int64_t x, int64_t lo,
                      int64_t hi)
{
    typedef vec<A, W> V;

    for (int64_t y = lo; y < hi; y++) {
        V col[N];
        UNROLL for (int j = 0; j < N; j++) col[j] =
            V::load(score + y * SIDE + x + j * W);
        UNROLL for (int i = 0; i < M; i++)
        {
            const V row = V::of(z[y * wide + i]);
            UNROLL for (int j = 0; j < N; j++) v[i][j] =
                where_pairs(p, x + j * W, y, v[i][j] + row * col[j], v[i][j]);
        }
    }
}

/* sum [d, x] += the sum over the y of x of z [y, d] score [y, x]. */
template <class A, int W>
FN void add_sums(const tile_room<A, W> &room, A *sum, const A *score,
                 const A *z, const pairs<A> &p)
{
    enum { M = TILE_ROWS, N = GROUP_VECS };
    typedef vec<A, W> V;
    const int64_t wide = room.wide;

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        for (int64_t d = 0; d < room.D && r.lo < r.hi; d += M) {
            A *to = sum + d * SIDE + x;
            V v[M][N];
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) v[i][j] =
                    V::load(to + i * SIDE + j * W);
            tile_of_pairs(v, z + d, wide, score, p, x, r.lo, r.all);
            tile(v, z + r.all * wide + d, 1, wide, score + r.all * SIDE + x,
                 SIDE, r.end - r.all);
            tile_of_pairs(v, z + d, wide, score, p, x, r.end, r.hi);
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) v[i][j]
                    .store(to + i * SIDE + j * W);
        }
    }
}

} // namespace
#endif
