/* attention_rows.h - attention for the host: a block computes one tile after
 * the other (attention_tile.h). attention.cu has the kernels for a GPU, and the
 * formulas. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_ROWS_H
#define MGPU_KERNELS_LLM_ATTENTION_ROWS_H

#include "kernels/llm/attention_softmax.h"

namespace
{

template <class T>
KERNEL attend(blk b, T *o, int64_t ldo, acc<T> *lse, seen<T> in, acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t D = in.D;
    const tile_room<A, W> room(at + b.id() * tile_room<A, W>::size(D), D);
    A *top = room.column[0], *total = room.column[1], *keep = room.column[2];

    for (int64_t i : b.share(in.heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in.rows);
        const T *k = in.k + u.head / in.group() * D,
                *v = in.v + u.head / in.group() * D;
        turn(room.turned[0], in.q + u.x * in.ld + u.head * D, in.ld, u.n, D,
             in.scale);
        room.clear_sums();
        for (int64_t x = 0; x < SIDE; x++) {
            top[x] = lowest<A>; /* a tile may have no keys for x */
            total[x] = 0;
        }
        each_tile<A>(
            spans_of_queries(in, u.x, u.n), in.rows,
            [&](int64_t y, int64_t n, const pairs<A> &p) {
                copy_rows(room, room.other[0], k + y * in.ld, in.ld, n);
                copy_rows(room, room.other[1], v + y * in.ld, in.ld, n);
                score_products(room, 0, p);
                run_softmax<A, W>(room.score[0], top, total, keep, p);
                scale_sums(room, room.sum[0], keep);
                add_sums(room, room.sum[0], room.score[0], room.other[1], p);
            });
        for (int64_t x = 0; x < u.n; x++) {
            keep[x] = 1 / total[x];
            if (lse)
                lse[(u.x + x) * in.heads + u.head] = log(total[x]) + top[x];
        }
        put_rows(room, o + u.x * ldo + u.head * D, ldo, room.sum[0], u.n, keep);
    }
}

/* From scores and do . v: p in score[0], ds in score[1]. lse and delta belong
 * to the queries, which are x or y. */
template <class A, int W, bool QUERIES_ARE_X>
FN void score_grads(const tile_room<A, W> &room, const A *lse, const A *delta,
                    A scale, const pairs<A> &p)
{
    typedef vec<A, W> V;

    for (int64_t x = 0; x < SIDE; x += W) {
        const int64_t hi = (int64_t)p.hi[x + W - 1];
        for (int64_t y = (int64_t)p.lo[x]; y < hi; y++) {
            A *s = room.score[0] + y * SIDE + x,
              *ds = room.score[1] + y * SIDE + x;
            const V l = QUERIES_ARE_X ? V::load(lse + x) : V::of(lse[y]),
                    m = QUERIES_ARE_X ? V::load(delta + x) : V::of(delta[y]);
            const V e = vexp_fast(V::load(s) - l);
            e.store(s);
            (e * (V::load(ds) - m) * scale).store(ds);
        }
    }
}

template <class T> KERNEL attend_dq(blk b, seen<T> in, grads<T> g, acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t D = in.D;
    const tile_room<A, W> room(at + b.id() * tile_room<A, W>::size(D), D);

    for (int64_t i : b.share(in.heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in.rows);
        const T *k = in.k + u.head / in.group() * D,
                *v = in.v + u.head / in.group() * D;
        turn(room.turned[0], in.q + u.x * in.ld + u.head * D, in.ld, u.n, D,
             in.scale);
        turn(room.turned[1], g.dout + u.x * g.ldo + u.head * D, g.ldo, u.n, D,
             A(1));
        take_columns(g, in.heads, u.head, u.x, u.n, room.column[0],
                     room.column[1]);
        room.clear_sums();
        each_tile<A>(
            spans_of_queries(in, u.x, u.n), in.rows,
            [&](int64_t y, int64_t n, const pairs<A> &p) {
                copy_rows(room, room.other[0], k + y * in.ld, in.ld, n);
                copy_rows(room, room.other[1], v + y * in.ld, in.ld, n);
                score_products(room, 0, p);
                score_products(room, 1, p);
                score_grads<A, W, true>(room, room.column[0], room.column[1],
                                        in.scale, p);
                add_sums(room, room.sum[0], room.score[1], room.other[0], p);
            });
        put_rows(room, g.dq + u.x * g.ldd + u.head * D, g.ldd, room.sum[0], u.n,
                 (const A *)nullptr);
    }
}

template <class T> KERNEL attend_dkv(blk b, seen<T> in, grads<T> g, acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t D = in.D;
    const tile_room<A, W> room(at + b.id() * tile_room<A, W>::size(D), D);

    for (int64_t i : b.share(in.kv_heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in.rows);
        const spans s = spans_of_keys(in, u.x, u.n);
        const int64_t from = u.x * in.ld + u.head * D,
                      to = u.x * g.ldd + u.head * D;
        turn(room.turned[0], in.k + from, in.ld, u.n, D, in.scale);
        turn(room.turned[1], in.v + from, in.ld, u.n, D, A(1));
        room.clear_sums();
        for (int64_t j = 0; j < in.group(); j++) {
            const int64_t h = u.head * in.group() + j;
            each_tile<A>(
                s, in.rows, [&](int64_t y, int64_t n, const pairs<A> &p) {
                    copy_rows(room, room.other[0], in.q + y * in.ld + h * D,
                              in.ld, n);
                    copy_rows(room, room.other[1], g.dout + y * g.ldo + h * D,
                              g.ldo, n);
                    take_columns(g, in.heads, h, y, n, room.column[0],
                                 room.column[1]);
                    score_products(room, 0, p);
                    score_products(room, 1, p);
                    score_grads<A, W, false>(room, room.column[0],
                                             room.column[1], in.scale, p);
                    add_sums(room, room.sum[0], room.score[1], room.other[0],
                             p);
                    add_sums(room, room.sum[1], room.score[0], room.other[1],
                             p);
                });
        }
        put_rows(room, g.dk + to, g.ldd, room.sum[0], u.n, (const A *)nullptr);
        put_rows(room, g.dv + to, g.ldd, room.sum[1], u.n, (const A *)nullptr);
    }
}

/* Blocks for `units`, each of about SIDE * D * 64 values' work. */
template <class T>
int64_t grid_of(struct device *d, const seen<T> &in, int64_t units)
{
    return blocks(d, units * SIDE * in.D * 64, units);
}

template <class T>
int run_fwd(struct device *d, T *o, int64_t ldo, acc<T> *lse, const seen<T> &in,
            struct error *err)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t grid = grid_of(d, in, in.heads * tiles_of(in.rows, SIDE));
    A *room = scratch<A>(d, grid * tile_room<A, W>::size(in.D), err);

    if (!room)
        return -1;
    launch(d, grid, attend<T>, o, ldo, lse, in, room);
    return 0;
}

template <class T>
int run_bwd(struct device *d, const seen<T> &in, grads<T> g, const T *o,
            struct error *err)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t n = in.rows * in.heads, n_tiles = tiles_of(in.rows, SIDE),
                  by_query = grid_of(d, in, in.heads * n_tiles),
                  by_key = grid_of(d, in, in.kv_heads * n_tiles);
    A *room = scratch<A>(d, by_query * tile_room<A, W>::size(in.D) + n, err);

    if (!room)
        return -1;
    A *delta = room + by_query * tile_room<A, W>::size(in.D);
    g.delta = delta;
    take_deltas(d, delta, g.dout, o, g.ldo, in);
    launch(d, by_query, attend_dq<T>, in, g, room);
    launch(d, by_key, attend_dkv<T>, in, g, room);
    return 0;
}

} // namespace
#endif
