/* attention_softmax.h - the softmax of a tile of attention, for the host: with
 * the largest score so far, and sums that follow it. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_SOFTMAX_H
#define MGPU_KERNELS_LLM_ATTENTION_SOFTMAX_H

#include "kernels/llm/attention_tile.h"

namespace
{

/* Scores become exponentials below the new maximum, top; total is their sum,
 * and keep what the sums so far are scaled by. */
template <class A, int W>
FN void run_softmax(A *score, A *top, A *total, A *keep, const pairs<A> &p)
{
    enum { N = GROUP_VECS };
    typedef vec<A, W> V;

    for (int64_t x = 0; x < SIDE; x += N * W) {
        const reach r(p, x, N * W);
        V most[N], sum[N];
        UNROLL for (int j = 0; j < N; j++) most[j] = V::load(top + x + j * W);
        for (int64_t y = r.lo; y < r.hi; y++) {
            const bool shares = y >= r.all && y < r.end;
            UNROLL for (int j = 0; j < N; j++)
            {
                A *at = score + y * SIDE + x + j * W;
                V s = V::load(at);
                if (!shares) {
                    s = where_pairs(p, x + j * W, y, s, V::of(-INFINITY));
                    s.store(at);
                }
                most[j] = vmax(most[j], s);
            }
        }
        UNROLL for (int j = 0; j < N; j++)
        {
            const int64_t at = x + j * W;
            const V f = vexp_fast(V::load(top + at) - most[j]);
            f.store(keep + at);
            most[j].store(top + at);
            sum[j] = V::load(total + at) * f;
        }
        for (int64_t y = r.lo; y < r.hi; y++)
            UNROLL for (int j = 0; j < N; j++)
            {
                A *at = score + y * SIDE + x + j * W;
                const V e = vexp_fast(V::load(at) - most[j]);
                e.store(at);
                sum[j] += e;
            }
        UNROLL for (int j = 0; j < N; j++) sum[j].store(total + x + j * W);
    }
}

template <class A, int W>
FN void scale_sums(const tile_room<A, W> &room, A *sum, const A *by)
{
    bool changes = false;

    for (int64_t x = 0; x < SIDE; x++)
        changes |= by[x] != 1;
    for (int64_t d = 0; changes && d < room.D; d++)
        for (int64_t x = 0; x < SIDE; x += W)
            (vec<A, W>::load(sum + d * SIDE + x) * vec<A, W>::load(by + x))
                .store(sum + d * SIDE + x);
}

/* to = sum^T * by of n rows; by NULL: 1. */
template <class A, int W, class T>
FN void put_rows(const tile_room<A, W> &room, T *to, int64_t ld, const A *sum,
                 int64_t n, const A *by)
{
    for (int64_t x = 0; x < n; x++) {
        const A f = by ? by[x] : A(1);
        for (int64_t d = 0; d < room.D; d++)
            to[x * ld + d] = (T)(sum[d * SIDE + x] * f);
    }
}

/* lse and delta of n tokens of a head; 0 behind them. */
template <class T>
FN void take_columns(const grads<T> &g, int64_t heads, int64_t head, int64_t i,
                     int64_t n, acc<T> *lse, acc<T> *delta)
{
    for (int64_t k = 0; k < SIDE; k++) {
        const int64_t at = (i + k) * heads + head;
        lse[k] = k < n ? g.lse[at] : 0;
        delta[k] = k < n ? g.delta[at] : 0;
    }
}

} // namespace
#endif
