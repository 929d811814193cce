/* attention_lanes.h - attention forward for a GPU, for every type and shape.
 * attention.cu has the formulas. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_LANES_H
#define MGPU_KERNELS_LLM_ATTENTION_LANES_H

#include "kernels/exec/exec_launch.h"

namespace
{

/* The sums of a block are in shared memory: 16 queries of 256 values are 32 kB
 * in fp64, and so are dk and dv of 8 keys. The other factors are read from
 * where they are, through the cache, W neighbours at a time. */
enum { QUERIES = 16, KEYS = 32, OWN_KEYS = 8 };

FN int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

template <class T, int W> FN acc<T> dot(const T *a, const T *b, int64_t D)
{
    typedef vec<acc<T>, W> V;
    V s = V::of(0);

    for (int64_t d = 0; d < D; d += W)
        s += V::load(a + d) * V::load(b + d);
    return s.total();
}

/* Which members of a tile belong to a row: lo to hi - 1. */
struct members {
    int lo, hi;
};
/* Of KEYS keys from y on, those that query i sees. */
template <class T> FN members keys_of(const seen<T> &in, int64_t i, int64_t y)
{
    const int64_t from = in.first(i) - y;
    return {(int)(from < 0 ? 0 : from), (int)least(KEYS, i + 1 - y)};
}

/* sum [n, D], in shared memory, = keep[r] sum + by [n, KEYS] x of the keys from
 * y on that query x + r sees. keep NULL: 1. Each lane owns some elements of
 * `sum` from their first to their last use. */
template <class T, int W>
FN void add_keys(blk b, const seen<T> &in, acc<T> *sum, const acc<T> *keep,
                 const acc<T> *by, const T *from, int64_t x, int n, int64_t y)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const int D = (int)in.D, per_row = D / W;

    for (int64_t at : b.lanes(n * per_row)) {
        const int r = (int)at / per_row, d = ((int)at - r * per_row) * W;
        const members of = keys_of(in, x + r, y);
        const T *row = from + (y + of.lo) * in.ld + d;
        V a = V::load(sum + r * D + d);
        if (keep)
            a = a * V::of(keep[r]);
        for (int c = of.lo; c < of.hi; c++, row += in.ld)
            a += V::of(by[r * KEYS + c]) * V::load(row);
        a.store(sum + r * D + d);
    }
}

/* Scores s [KEYS] of a query become exponentials below the new maximum; keep is
 * what the sums so far are scaled by. */
template <class A> FN void run_softmax(A *s, A *top, A *sum, A *keep)
{
    A most = *top;
    for (int j = 0; j < KEYS; j++)
        most = most < s[j] ? s[j] : most;
    const A f = exp(*top - most);
    A total = *sum * f;
    for (int j = 0; j < KEYS; j++) {
        s[j] = exp(s[j] - most);
        total += s[j];
    }
    *top = most;
    *sum = total;
    *keep = f;
}

/* A block processes QUERIES queries of a head at a time. */
template <class T, int W>
KERNEL attend(blk b, T *o, int64_t ldo, acc<T> *lse, seen<T> in)
{
    typedef acc<T> A;
    SHARED(A, out, QUERIES * HEAD_MAX);
    SHARED(A, s, QUERIES * KEYS);
    SHARED(A, top, QUERIES);
    SHARED(A, sum, QUERIES);
    SHARED(A, keep, QUERIES);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, QUERIES);

    for (int64_t u : b.share(in.heads * n_tiles)) {
        const int64_t h = u / n_tiles,
                      x = tile_at(u % n_tiles, n_tiles) * QUERIES,
                      n = least(in.rows - x, QUERIES), end = x + n;
        const T *q = in.q + h * D, *k = in.k + h / in.group() * D,
                *v = in.v + h / in.group() * D;
        for (int64_t i : b.lanes(n * D / W))
            vec<A, W>::of(0).store(out + i * W);
        for (int64_t i : b.lanes(QUERIES)) {
            top[i] = lowest<A>; /* a tile may have no keys for i */
            sum[i] = 0;
        }
        for (int64_t y = in.first(x); y < end; y += KEYS) {
            for (int64_t i : b.lanes(QUERIES * KEYS)) {
                const int64_t r = x + i / KEYS, c = y + i % KEYS;
                s[i] =
                    in.sees(r, c)
                        ? dot<T, W>(q + r * in.ld, k + c * in.ld, D) * in.scale
                        : -(A)INFINITY;
            }
            b.sync(); /* scores */
            for (int64_t i : b.lanes(QUERIES))
                run_softmax(s + i * KEYS, top + i, sum + i, keep + i);
            b.sync(); /* exponentials */
            add_keys<T, W>(b, in, out, keep, s, v, x, (int)n, y);
            b.sync(); /* s is free */
        }
        for (int64_t i : b.lanes(n * D / W)) {
            const int64_t r = i * W / D, d = i * W % D;
            (vec<A, W>::load(out + i * W) * vec<A, W>::of(1 / sum[r]))
                .store(o + (x + r) * ldo + h * D + d);
        }
        for (int64_t i : b.lanes(lse ? n : 0))
            lse[(x + i) * in.heads + h] = log(sum[i]) + top[i];
        b.sync(); /* sum is free */
    }
}

} // namespace
#endif
