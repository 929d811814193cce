/* attention_softmax.h - scores of a tile of attention, for the host: their
 * softmax, with the largest score so far and sums that follow it, and their
 * gradients. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_SOFTMAX_H
#define MGPU_KERNELS_LLM_ATTENTION_SOFTMAX_H

#include "kernels/llm/attention_tile.h"

namespace
{

/* v [y, x] = other . turned, of M y and N vectors of x. */
template <class A, int W, int M, int N>
FN void score_tile(const tile_room<A, W> &room, vec<A, W> (&v)[M][N],
                   const A *other, const A *turned)
{
    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        v[i][j] = vec<A, W>::of(0);
    tile(v, other, room.wide, 1, turned, SIDE, room.D);
}

/* v [y, x], where y is not in the span of x, = a. */
template <class A, int W, int M, int N>
FN void cut_pairs(vec<A, W> (&v)[M][N], const pairs<A> &p, int64_t x, int64_t y,
                  A a)
{
    UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
        v[i][j] = where_pairs(p, x + j * W, y + i, v[i][j], vec<A, W>::of(a));
}

/* score[0] = the exponentials of the scores below the new maximum, which is
 * column[0]; column[1] is their sum, and room.keep what the sums so far are
 * scaled by: true if one of these is not 1. */
template <class A, int W>
FN bool run_softmax(const tile_room<A, W> &room,
                    const typename tile_room<A, W>::own &own, const pairs<A> &p)
{
    enum { M = TILE_ROWS, N = GROUP_VECS };
    typedef vec<A, W> V;
    const V one = V::of(1);
    V change = V::of(0);

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        const int64_t lo = r.lo / M * M;
        A *top = own.column[0] + x, *total = own.column[1] + x;
        V most[N], sum[N];
        UNROLL for (int j = 0; j < N; j++) most[j] = V::load(top + j * W);
        for (int64_t y = lo; y < r.hi; y += M) {
            V v[M][N];
            score_tile(room, v, room.other[0] + y * room.wide,
                       own.turned[0] + x);
            if (r.cuts(y, M))
                cut_pairs(v, p, x, y, -(A)INFINITY);
            put_tile(room.score[0] + y * SIDE + x, v);
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) most[j] =
                    vmax(most[j], v[i][j]);
        }
        UNROLL for (int j = 0; j < N; j++)
        {
            const V f = vexp_fast(V::load(top + j * W) - most[j]);
            f.store(room.keep + x + j * W);
            most[j].store(top + j * W);
            sum[j] = V::load(total + j * W) * f;
            change += (f - one) * (f - one);
        }
        for (int64_t y = lo; y < r.hi; y++)
            UNROLL for (int j = 0; j < N; j++)
            {
                A *at = room.score[0] + y * SIDE + x + j * W;
                const V e = vexp_fast(V::load(at) - most[j]);
                e.store(at);
                sum[j] += e;
            }
        UNROLL for (int j = 0; j < N; j++) sum[j].store(total + j * W);
    }
    return !(change.total() == 0);
}

template <class A, int W>
FN void scale_sums(const tile_room<A, W> &room, A *sum)
{
    for (int64_t d = 0; d < room.D; d++)
        for (int64_t x = 0; x < SIDE; x += W)
            (vec<A, W>::load(sum + d * SIDE + x) *
             vec<A, W>::load(room.keep + x))
                .store(sum + d * SIDE + x);
}

/* Of x, which are keys, and y, which are queries: p in score[0], ds in
 * score[1], 0 where there is no pair. */
template <class A, int W>
FN void score_grads(const tile_room<A, W> &room,
                    const typename tile_room<A, W>::own &own, const A *lse,
                    const A *delta, A scale, const pairs<A> &p)
{
    enum { M = TILE_ROWS, N = GROUP_VECS };
    typedef vec<A, W> V;

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        for (int64_t y = r.lo / M * M; y < r.hi; y += M) {
            const int64_t at = y * SIDE + x, row = y * room.wide;
            V e[M][N], ds[M][N];
            score_tile(room, e, room.other[0] + row, own.turned[0] + x);
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) e[i][j] =
                    vexp_fast(e[i][j] - V::of(lse[y + i]));
            if (r.cuts(y, M))
                cut_pairs(e, p, x, y, A(0));
            put_tile(room.score[0] + at, e);
            score_tile(room, ds, room.other[1] + row, own.turned[1] + x);
            UNROLL for (int i = 0; i < M; i++)
                UNROLL for (int j = 0; j < N; j++) ds[i][j] =
                    V::load(room.score[0] + at + i * SIDE + j * W) *
                    (ds[i][j] - V::of(delta[y + i])) * scale;
            if (r.cuts(y, M))
                cut_pairs(ds, p, x, y, A(0));
            put_tile(room.score[1] + at, ds);
        }
    }
}

/* lse and delta of n tokens of a head; 0 behind them. */
template <class T>
FN void take_columns(const grads<T> &g, int64_t heads, int64_t head, int64_t i,
                     int64_t n, acc<T> *const (&column)[2])
{
    for (int64_t k = 0; k < SIDE; k++) {
        const int64_t at = (i + k) * heads + head;
        column[0][k] = k < n ? g.lse[at] : 0;
        column[1][k] = k < n ? g.delta[at] : 0;
    }
}

} // namespace
#endif
