/* attention_span.h - which tokens of attention belong together, for the host:
 * the span of each token of a tile, and what of it is in another tile. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_SPAN_H
#define MGPU_KERNELS_LLM_ATTENTION_SPAN_H

#include "kernels/exec/simd_exp.h"

namespace
{

/* 64: the arrays of a head of 64 values are 130 kB in fp32, which a second
 * cache holds, and one copy of y serves 64 x. */
enum { SIDE = 64, GROUP_VECS = 2 };

/* Of each x of a tile, the tokens from[x] to to[x] - 1. Both never fall. */
struct spans {
    int32_t from[SIDE], to[SIDE];
};

template <class T>
spans spans_of_queries(const seen<T> &in, int64_t x, int64_t n)
{
    spans s;

    for (int64_t i = 0; i < n; i++) {
        s.from[i] = (int32_t)in.first(x + i);
        s.to[i] = (int32_t)(x + i + 1);
    }
    for (int64_t i = n; i < SIDE; i++) { /* computed there, not stored */
        s.from[i] = s.from[n - 1];
        s.to[i] = s.to[n - 1];
    }
    return s;
}
/* Of the queries y to until - 1 alone. */
template <class T>
spans spans_of_keys(const seen<T> &in, int64_t x, int64_t n, int64_t y,
                    int64_t until)
{
    spans s;
    int64_t end = y;

    for (int64_t i = 0; i < n; i++) {
        end = end > x + i ? end : x + i + 1;
        while (end < until && in.first(end) <= x + i)
            end++;
        s.from[i] = (int32_t)(x + i);
        s.to[i] = (int32_t)end;
    }
    for (int64_t i = n; i < SIDE; i++) /* no keys: no query sees them */
        s.from[i] = s.to[i] = s.to[n - 1];
    return s;
}

/* The spans within one tile of y, as integers as wide as A. Where each x is
 * paired with each y of the tile, `whole`, they are left out. */
template <class A> struct pairs {
    typedef typename exp_of<A>::U U;
    bool whole;
    U lo[SIDE], hi[SIDE];

    pairs(const spans &s, int64_t y)
        : whole(s.from[SIDE - 1] <= y && s.to[0] >= y + SIDE)
    {
        for (int64_t i = 0; !whole && i < SIDE; i++) {
            lo[i] = within(s.from[i] - (int32_t)y);
            hi[i] = within(s.to[i] - (int32_t)y);
        }
    }
    static U within(int32_t i)
    {
        return (U)(i < 0 ? 0 : i > SIDE ? (int32_t)SIDE : i);
    }
};

/* The y of a group of n x: lo to hi - 1 belong to some of them, all to end - 1
 * to every one. */
struct reach {
    int64_t lo, all, end, hi;

    template <class A> reach(const pairs<A> &p, int64_t x, int64_t n)
    {
        lo = p.whole ? 0 : (int64_t)p.lo[x];
        hi = p.whole ? (int64_t)SIDE : (int64_t)p.hi[x + n - 1];
        all = p.whole ? 0 : (int64_t)p.lo[x + n - 1];
        end = p.whole ? (int64_t)SIDE : (int64_t)p.hi[x];
        if (all >= end)
            all = end = hi;
    }
    /* Whether some of n y from y on do not belong to every x. */
    FN bool cuts(int64_t y, int64_t n) const
    {
        return y < all || y + n > end;
    }
};

/* a where y is in the span of x, else b. */
template <class A, int W>
FN vec<A, W> where_pairs(const pairs<A> &p, int64_t x, int64_t y, vec<A, W> a,
                         vec<A, W> b)
{
    typedef typename pairs<A>::U U;
    const vec<U, W> lo = vec<U, W>::load(p.lo + x),
                    hi = vec<U, W>::load(p.hi + x);

    return {((lo.v <= (U)y) & (hi.v > (U)y)) ? a.v : b.v};
}

/* Calls f(y, n, pairs) for each tile of y that the spans reach. */
template <class A, class F> FN void each_tile(const spans &s, int64_t rows, F f)
{
    for (int64_t y = s.from[0]; y < s.to[SIDE - 1]; y += SIDE)
        f(y, rows - y < SIDE ? rows - y : (int64_t)SIDE, pairs<A>(s, y));
}

/* The u-th unit of work: the query heads of a key head from `head` on, at most
 * `most` of them, and SIDE tokens. All heads of these tokens come one after the
 * other, because their values are in the same lines of memory. */
struct unit {
    int64_t kv, head, heads, x, n;
    template <class T> unit(int64_t u, const seen<T> &in, int64_t most)
    {
        const int64_t n_tiles = tiles_of(in.rows, SIDE), group = in.group(),
                      parts = (group + most - 1) / most,
                      of = u % (in.kv_heads * parts), first = of % parts * most;
        kv = of / parts;
        head = kv * group + first;
        heads = group - first < most ? group - first : most;
        x = tile_at(u / (in.kv_heads * parts), n_tiles) * SIDE;
        n = in.rows - x < SIDE ? in.rows - x : (int64_t)SIDE;
    }
};

} // namespace
#endif
