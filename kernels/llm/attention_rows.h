/* attention_rows.h - attention's forward pass for the host: a block computes
 * one tile after the other (attention_tile.h). attention_back_rows.h has the
 * backward pass, attention.cu the kernels for a GPU, and the formulas. */
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

} // namespace
#endif
