/* attention_rows.h - attention for the host: a block computes one tile after
 * the other (attention_tile.h). attention.cu has the kernels for a GPU, and the
 * formulas. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_ROWS_H
#define MGPU_KERNELS_LLM_ATTENTION_ROWS_H

#include "kernels/llm/attention_softmax.h"

namespace
{

/* Units of the queries, of up to `heads` heads each. */
template <class T> FN int64_t units_of(const seen<T> &in, int64_t heads)
{
    return in.kv_heads * ((in.group() + heads - 1) / heads) *
           tiles_of(in.rows, SIDE);
}

template <class T>
KERNEL attend(blk b, T *o, int64_t ldo, acc<T> *lse, seen<T> in, int64_t heads,
              acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    typedef tile_room<A, W> room_type;
    const int64_t D = in.D;
    room_type room(at + b.id() * room_type::size(D, heads), D);

    for (int64_t i : b.share(units_of(in, heads))) {
        const unit u(i, in, heads);
        const spans s = spans_of_queries(in, u.x, u.n);
        const T *k = in.k + u.kv * D, *v = in.v + u.kv * D;
        for (int64_t j = 0; j < u.heads; j++) {
            const typename room_type::own own = room.head(j);
            turn(room, own.turned[0], in.q + u.x * in.ld + (u.head + j) * D,
                 in.ld, u.n, in.scale);
            room.clear(own.sum[0]);
            for (int64_t x = 0; x < SIDE; x++) {
                own.column[0][x] =
                    lowest<A>; /* a tile may have no keys for x */
                own.column[1][x] = 0;
            }
        }
        each_tile<A>(s, in.rows, [&](int64_t y, int64_t n, const pairs<A> &p) {
            copy_rows(room, 0, k + y * in.ld, in.ld, n);
            copy_rows(room, 1, v + y * in.ld, in.ld, n);
            for (int64_t j = 0; j < u.heads; j++) {
                const typename room_type::own own = room.head(j);
                if (run_softmax(room, own, p) && y > s.from[0])
                    scale_sums(room, own.sum[0]);
                add_sums(room, own.sum[0], room.score[0], 1, p);
            }
        });
        for (int64_t j = 0; j < u.heads; j++) {
            const typename room_type::own own = room.head(j);
            const A *top = own.column[0], *total = own.column[1];
            for (int64_t x = 0; x < u.n; x++) {
                room.keep[x] = 1 / total[x];
                if (lse)
                    lse[(u.x + x) * in.heads + u.head + j] =
                        log(total[x]) + top[x];
            }
            turn_back<A, W>(o + u.x * ldo + (u.head + j) * D, ldo, own.sum[0],
                            SIDE, u.n, D, room.keep);
        }
    }
}

template <class T>
KERNEL attend_dq(blk b, seen<T> in, grads<T> g, int64_t heads, acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    typedef tile_room<A, W> room_type;
    const int64_t D = in.D;
    room_type room(at + b.id() * room_type::size(D, heads), D);

    for (int64_t i : b.share(units_of(in, heads))) {
        const unit u(i, in, heads);
        const T *k = in.k + u.kv * D, *v = in.v + u.kv * D;
        for (int64_t j = 0; j < u.heads; j++) {
            const typename room_type::own own = room.head(j);
            const int64_t from = (u.head + j) * D;
            turn(room, own.turned[0], in.q + u.x * in.ld + from, in.ld, u.n,
                 in.scale);
            turn(room, own.turned[1], g.dout + u.x * g.ldo + from, g.ldo, u.n,
                 A(1));
            take_columns(g, in.heads, u.head + j, u.x, u.n, own.column);
            room.clear(own.sum[0]);
        }
        each_tile<A>(spans_of_queries(in, u.x, u.n), in.rows,
                     [&](int64_t y, int64_t n, const pairs<A> &p) {
                         copy_rows(room, 0, k + y * in.ld, in.ld, n);
                         copy_rows(room, 1, v + y * in.ld, in.ld, n);
                         for (int64_t j = 0; j < u.heads; j++) {
                             const typename room_type::own own = room.head(j);
                             score_grads<A, W, true>(room, own, own.column[0],
                                                     own.column[1], in.scale,
                                                     p);
                             add_sums(room, own.sum[0], room.score[1], 0, p);
                         }
                     });
        for (int64_t j = 0; j < u.heads; j++)
            turn_back<A, W>(g.dq + u.x * g.ldd + (u.head + j) * D, g.ldd,
                            room.head(j).sum[0], SIDE, u.n, D,
                            (const A *)nullptr);
    }
}

template <class T> KERNEL attend_dkv(blk b, seen<T> in, grads<T> g, acc<T> *at)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    typedef tile_room<A, W> room_type;
    const int64_t D = in.D;
    room_type room(at + b.id() * room_type::size(D, 1), D);
    const typename room_type::own own = room.head(0);

    for (int64_t i : b.share(in.kv_heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in, in.group());
        const spans s = spans_of_keys(in, u.x, u.n);
        const int64_t from = u.x * in.ld + u.kv * D,
                      to = u.x * g.ldd + u.kv * D;
        turn(room, own.turned[0], in.k + from, in.ld, u.n, in.scale);
        turn(room, own.turned[1], in.v + from, in.ld, u.n, A(1));
        room.clear(own.sum[0]);
        room.clear(own.sum[1]);
        for (int64_t h = u.head; h < u.head + u.heads; h++)
            each_tile<A>(
                s, in.rows, [&](int64_t y, int64_t n, const pairs<A> &p) {
                    copy_rows(room, 0, in.q + y * in.ld + h * D, in.ld, n);
                    copy_rows(room, 1, g.dout + y * g.ldo + h * D, g.ldo, n);
                    take_columns(g, in.heads, h, y, n, own.column);
                    score_grads<A, W, false>(room, own, own.column[0],
                                             own.column[1], in.scale, p);
                    add_sums(room, own.sum[0], room.score[1], 0, p);
                    add_sums(room, own.sum[1], room.score[0], 1, p);
                });
        turn_back<A, W>(g.dk + to, g.ldd, own.sum[0], SIDE, u.n, D,
                        (const A *)nullptr);
        turn_back<A, W>(g.dv + to, g.ldd, own.sum[1], SIDE, u.n, D,
                        (const A *)nullptr);
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
    const int64_t heads = tile_room<A, W>::heads_of(in.D, in.group()),
                  grid = grid_of(d, in, units_of(in, heads));
    A *room = scratch<A>(d, grid * tile_room<A, W>::size(in.D, heads), err);

    if (!room)
        return -1;
    launch(d, grid, attend<T>, o, ldo, lse, in, heads, room);
    return 0;
}

template <class T>
int run_bwd(struct device *d, const seen<T> &in, grads<T> g, const T *o,
            struct error *err)
{
    typedef acc<T> A;
    enum { W = widest<A> };
    const int64_t n = in.rows * in.heads, n_tiles = tiles_of(in.rows, SIDE),
                  heads = tile_room<A, W>::heads_of(in.D, in.group()),
                  by_query = grid_of(d, in, units_of(in, heads)),
                  by_key = grid_of(d, in, in.kv_heads * n_tiles),
                  more = by_query > by_key ? by_query : by_key,
                  size = more * tile_room<A, W>::size(in.D, heads);
    A *room = scratch<A>(d, size + n, err);

    if (!room)
        return -1;
    A *delta = room + size;
    g.delta = delta;
    take_deltas(d, delta, g.dout, o, g.ldo, in);
    launch(d, by_query, attend_dq<T>, in, g, heads, room);
    launch(d, by_key, attend_dkv<T>, in, g, room);
    return 0;
}

} // namespace
#endif
