/* attention_tile.h - a tile of attention for the host: its arrays, and the
 * products on them.
 *
 * A tile of SIDE tokens x, queries or keys, meets the tokens y of the other
 * kind, SIDE at a time. The tile's own factor is turned, [D, SIDE]: so a vector
 * holds one score of neighbouring x, the softmax of a query is a loop over y
 * without sums across a vector, and the scores [y, x] are already in the order
 * in which the next product reads them. Each x has the span of y that it is
 * paired with. Scores are computed for whole groups of x and a few neighbouring
 * y; what is not a pair becomes 0 before the sums over y, which so need no
 * spans: 0 times a number adds nothing. Where y has a value that is no number,
 * they include exactly the pairs of the spans. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_TILE_H
#define MGPU_KERNELS_LLM_ATTENTION_TILE_H

#include "kernels/exec/simd_tile.h"
#include "kernels/exec/simd_turn.h"
#include "kernels/llm/attention_span.h"

namespace
{

/* What a block works in: one part of the op's scratch. The heads of a unit,
 * which have tokens x of their own, share the factors of y. */
template <class A, int W> struct tile_room {
    /* A head's. */
    struct own {
        A *turned[2]; /* [D, SIDE]: the tile's factors */
        A *sum[2];    /* [wide, SIDE] */
        A *column[2]; /* [SIDE] */
    };
    A *at;
    A *other[3];     /* [SIDE, wide]: the factors of y; of x, as rows */
    A *score[2];     /* [y, x] */
    A *keep;         /* [SIDE] */
    bool finite[3];  /* what is in `other` */
    int64_t D, wide; /* a head's values, and in whole vectors and tiles */

    static int64_t padded(int64_t D)
    {
        const int64_t unit = W > TILE_ROWS ? W : (int)TILE_ROWS;
        return (D + unit - 1) / unit * unit;
    }
    static int64_t own_size(int64_t D)
    {
        return 2 * SIDE * (D + padded(D) + 1);
    }
    static int64_t size(int64_t D, int64_t heads)
    {
        return SIDE * (3 * padded(D) + 2 * SIDE + 1) + heads * own_size(D);
    }
    /* How many heads of a group to work on at once: what they have stays in a
     * second cache of 512 kB. */
    static int64_t heads_of(int64_t D, int64_t group)
    {
        const int64_t fit =
            (int64_t)(256 << 10) / (own_size(D) * (int64_t)sizeof(A));
        return fit < 1 ? 1 : fit < group ? fit : group;
    }
    tile_room(A *from, int64_t values) : D(values), wide(padded(values))
    {
        for (int i = 0; i < 3; i++, from += SIDE * wide)
            other[i] = from;
        for (int i = 0; i < 2; i++, from += SIDE * SIDE)
            score[i] = from;
        keep = from;
        at = from + SIDE;
        finite[0] = finite[1] = finite[2] = false;
    }
    void clear(A *sum) const
    {
        memset(sum, 0, sizeof(A) * SIDE * (size_t)wide);
    }
    own head(int64_t j) const
    {
        A *p = at + j * own_size(D);
        A *sums = p + 2 * SIDE * D, *columns = sums + 2 * SIDE * wide;
        return {{p, p + SIDE * D},
                {sums, sums + SIDE * wide},
                {columns, columns + SIDE}};
    }
};

/* to [D, SIDE] = scale * x^T of n rows; the other columns are 0. */
template <class A, int W, class T>
FN void turn(const tile_room<A, W> &room, A *to, const T *x, int64_t ld,
             int64_t n, A scale)
{
    if (n < SIDE)
        memset(to, 0, sizeof(A) * SIDE * (size_t)room.D);
    turn_rows<A, W>(to, SIDE, x, ld, n, room.D, scale);
}

/* other [SIDE, wide] = x of n rows. What is beyond them, or beyond D, may be
 * anything: it only reaches scores and sums that are not used. */
template <class A, int W, class T>
FN void copy_rows(tile_room<A, W> &room, int which, const T *x, int64_t ld,
                  int64_t n)
{
    enum { HALF = HALF_OF(W) };
    A *to = room.other[which], odd = 0;
    vec<A, W> odds = vec<A, W>::of(0); /* x * 0: NaN, if x is no number */
    vec<A, HALF> half_odds = vec<A, HALF>::of(0);

    for (int64_t i = 0; i < n; i++, to += room.wide, x += ld) {
        int64_t d = 0;
        for (; d + W <= room.D; d += W) {
            const vec<A, W> v = vec<A, W>::load(x + d);
            v.store(to + d);
            odds += v * A(0);
        }
        for (; d + HALF <= room.D; d += HALF) {
            const vec<A, HALF> v = vec<A, HALF>::load(x + d);
            v.store(to + d);
            half_odds += v * A(0);
        }
        for (; d < room.D; d++) {
            to[d] = (A)x[d];
            odd += to[d] * 0;
        }
    }
    room.finite[which] = odds.total() + half_odds.total() + odd == 0;
}

template <class A, int W, int M, int N>
FN void put_tile(A *score, const vec<A, W> (&v)[M][N])
{
    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        v[i][j]
            .store(score + i * SIDE + j * W);
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

/* sum [d, x] += the sum over the y of x of other [y, d] score [y, x]. */
template <class A, int W>
FN void add_sums(const tile_room<A, W> &room, A *sum, const A *score, int which,
                 const pairs<A> &p)
{
    enum { M = TILE_ROWS, N = GROUP_VECS };
    typedef vec<A, W> V;
    const int64_t wide = room.wide;
    const A *z = room.other[which];
    const bool numbers = p.whole || room.finite[which];

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        for (int64_t d = 0; d < room.D && r.lo < r.hi; d += M) {
            A *to = sum + d * SIDE + x;
            V v[M][N];
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) v[i][j] =
                    V::load(to + i * SIDE + j * W);
            if (numbers)
                tile(v, z + r.lo * wide + d, 1, wide, score + r.lo * SIDE + x,
                     SIDE, r.hi - r.lo);
            else
                tile_of_pairs(v, z + d, wide, score, p, x, r.lo, r.hi);
            put_tile(to, v);
        }
    }
}

} // namespace
#endif
