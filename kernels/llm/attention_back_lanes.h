/* attention_back_lanes.h - the gradient of attention for a GPU, for every type
 * and shape. attention.cu has the formulas. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_BACK_LANES_H
#define MGPU_KERNELS_LLM_ATTENTION_BACK_LANES_H

#include "kernels/llm/attention_lanes.h"

namespace
{

/* Probability and the gradient of its score, of query i, key j and head h. */
template <class T, int W>
FN acc<T> score_grad(const seen<T> &in, const grads<T> &g, int64_t i, int64_t j,
                     int64_t h, acc<T> *p)
{
    const int64_t D = in.D, key = j * in.ld + h / in.group() * D;
    const acc<T> s = dot<T, W>(in.q + i * in.ld + h * D, in.k + key, D) *
                     in.scale,
                 dp = dot<T, W>(g.dout + i * g.ldo + h * D, in.v + key, D);

    *p = exp(s - g.lse[i * in.heads + h]);
    return *p * (dp - g.delta[i * in.heads + h]) * in.scale;
}

template <class T, int W> KERNEL attend_dq(blk b, seen<T> in, grads<T> g)
{
    typedef acc<T> A;
    SHARED(A, dq, QUERIES * HEAD_MAX);
    SHARED(A, ds, QUERIES * KEYS);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, QUERIES);

    for (int64_t u : b.share(in.heads * n_tiles)) {
        const int64_t h = u / n_tiles,
                      x = tile_at(u % n_tiles, n_tiles) * QUERIES,
                      n = least(in.rows - x, QUERIES), end = x + n;
        const T *k = in.k + h / in.group() * D;
        for (int64_t i : b.lanes(n * D / W))
            vec<A, W>::of(0).store(dq + i * W);
        for (int64_t y = in.first(x); y < end; y += KEYS) {
            for (int64_t i : b.lanes(QUERIES * KEYS)) {
                const int64_t r = x + i / KEYS, c = y + i % KEYS;
                A p = 0;
                ds[i] =
                    in.sees(r, c) ? score_grad<T, W>(in, g, r, c, h, &p) : A(0);
            }
            b.sync(); /* ds is there */
            add_keys<T, W>(b, in, dq, (const A *)nullptr, ds, k, x, (int)n, y);
            b.sync(); /* ds is free */
        }
        for (int64_t i : b.lanes(n * D / W)) {
            const int64_t r = i * W / D, d = i * W % D;
            vec<A, W>::load(dq + i * W)
                .store(g.dq + (x + r) * g.ldd + h * D + d);
        }
    }
}

/* dk and dv of n keys from y on += those of the queries from x on; p and ds are
 * [QUERIES, OWN_KEYS]. */
template <class T, int W>
FN void add_key_grads(blk b, const seen<T> &in, const grads<T> &g, int64_t h,
                      int64_t x, int64_t y, int64_t n, const acc<T> *p,
                      const acc<T> *ds, acc<T> *dk, acc<T> *dv)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const int D = (int)in.D, per_row = D / W;

    for (int64_t at : b.lanes(n * per_row)) {
        const int c = (int)at / per_row, d = ((int)at - c * per_row) * W;
        const T *q = in.q + x * in.ld + h * D + d,
                *dout = g.dout + x * g.ldo + h * D + d;
        V to_k = V::load(dk + c * D + d), to_v = V::load(dv + c * D + d);
        for (int r = 0; r < QUERIES; r++, q += in.ld, dout += g.ldo) {
            if (!in.sees(x + r, y + c))
                continue;
            to_k += V::of(ds[r * OWN_KEYS + c]) * V::load(q);
            to_v += V::of(p[r * OWN_KEYS + c]) * V::load(dout);
        }
        to_k.store(dk + c * D + d);
        to_v.store(dv + c * D + d);
    }
}

template <class T, int W> KERNEL attend_dkv(blk b, seen<T> in, grads<T> g)
{
    typedef acc<T> A;
    SHARED(A, dk, OWN_KEYS * HEAD_MAX);
    SHARED(A, dv, OWN_KEYS * HEAD_MAX);
    SHARED(A, p, QUERIES * OWN_KEYS);
    SHARED(A, ds, QUERIES * OWN_KEYS);
    const int64_t D = in.D, n_tiles = tiles_of(in.rows, OWN_KEYS);

    for (int64_t u : b.share(in.kv_heads * n_tiles)) {
        const int64_t kv = u / n_tiles,
                      y = tile_at(u % n_tiles, n_tiles) * OWN_KEYS,
                      n = least(in.rows - y, OWN_KEYS);
        for (int64_t i : b.lanes(n * D / W)) {
            vec<A, W>::of(0).store(dk + i * W);
            vec<A, W>::of(0).store(dv + i * W);
        }
        for (int64_t h = kv * in.group(); h < (kv + 1) * in.group(); h++)
            for (int64_t x = y; x < in.rows && in.first(x) < y + n;
                 x += QUERIES) {
                for (int64_t i : b.lanes(QUERIES * OWN_KEYS)) {
                    const int64_t r = x + i / OWN_KEYS, c = y + i % OWN_KEYS;
                    p[i] = ds[i] = 0;
                    if (in.sees(r, c))
                        ds[i] = score_grad<T, W>(in, g, r, c, h, &p[i]);
                }
                b.sync(); /* both are there */
                add_key_grads<T, W>(b, in, g, h, x, y, n, p, ds, dk, dv);
                b.sync(); /* both are free */
            }
        for (int64_t i : b.lanes(n * D / W)) {
            const int64_t r = i * W / D, d = i * W % D,
                          to = (y + r) * g.ldd + kv * D + d;
            vec<A, W>::load(dk + i * W).store(g.dk + to);
            vec<A, W>::load(dv + i * W).store(g.dv + to);
        }
    }
}

} // namespace
#endif
