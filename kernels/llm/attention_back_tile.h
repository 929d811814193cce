/* attention_back_tile.h - the gradient of a tile of attention, for the host:
 * what a block has of the keys of a tile, and what it does with queries that
 * see them. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_BACK_TILE_H
#define MGPU_KERNELS_LLM_ATTENTION_BACK_TILE_H

#include "kernels/llm/attention_band.h"

namespace
{

/* Whether dq is summed up beside its place, where only rounded values fit. */
template <class T> constexpr bool is_rounded = sizeof(T) != sizeof(acc<T>);

/* What a block does it with. */
template <class T> struct back {
    typedef acc<T> A;
    enum { W = widest<A> };
    typedef tile_room<A, W> room_type;
    const seen<T> &in;
    const grads<T> &g;
    A *dq; /* [rows, heads, D], by row stride ld: g.dq, if T is A */
    int64_t ld;
    room_type room;
    typename room_type::own own;

    back(const seen<T> &from, const grads<T> &to, A *sums, int64_t ldq, A *at)
        : in(from), g(to), dq(sums), ld(ldq), room(at, from.D),
          own(room.head(0))
    {
    }
    void take_keys(int64_t kv, int64_t x, int64_t n)
    {
        const int64_t from = x * in.ld + kv * in.D;
        turn(room, own.turned[0], in.k + from, in.ld, n, in.scale);
        turn(room, own.turned[1], in.v + from, in.ld, n, A(1));
    }
    void take_key_rows(int64_t kv, int64_t x, int64_t n)
    {
        copy_rows(room, 2, in.k + x * in.ld + kv * in.D, in.ld, n);
        /* No key: its ds is 0, and so must be what that is multiplied with. */
        memset(room.other[2] + n * room.wide, 0,
               sizeof(A) * (size_t)((SIDE - n) * room.wide));
    }
    /* p and ds of n queries of a head and the keys. */
    void meet(int64_t head, int64_t y, int64_t n, const pairs<A> &p)
    {
        const int64_t from = head * in.D;
        copy_rows(room, 0, in.q + y * in.ld + from, in.ld, n);
        copy_rows(room, 1, g.dout + y * g.ldo + from, g.ldo, n);
        take_columns(g, in.heads, head, y, n, own.column);
        score_grads(room, own, own.column[0], own.column[1], in.scale, p);
    }
    void add_keys(const pairs<A> &p)
    {
        add_sums(room, own.sum[0], room.score[1], 0, p);
        add_sums(room, own.sum[1], room.score[0], 1, p);
    }
    void add_queries(int64_t head, int64_t y, int64_t n, const pairs<A> &p)
    {
        add_bands(room, dq + y * ld + head * in.D, ld, n, p);
    }
    void clear_keys() const
    {
        room.clear(own.sum[0]);
        room.clear(own.sum[1]);
    }
    void put_keys(int64_t kv, int64_t x, int64_t n) const
    {
        const int64_t to = x * g.ldd + kv * in.D;
        turn_back<A, W>(g.dk + to, g.ldd, own.sum[0], SIDE, n, in.D,
                        (const A *)nullptr);
        turn_back<A, W>(g.dv + to, g.ldd, own.sum[1], SIDE, n, in.D,
                        (const A *)nullptr);
    }
    /* The heads of a group lie one after the other. */
    void clear_queries(int64_t kv, int64_t y, int64_t n) const
    {
        const int64_t values = in.group() * in.D;
        for (int64_t i = y; i < y + n; i++)
            memset(dq + i * ld + kv * values, 0, sizeof(A) * (size_t)values);
    }
    void put_queries(int64_t kv, int64_t y, int64_t n) const
    {
        const int64_t values = in.group() * in.D, at = kv * values;
        if (!is_rounded<T>)
            return;
        for (int64_t i = y; i < y + n; i++)
            for (int64_t c = at; c < at + values; c++)
                g.dq[i * g.ldd + c] = (T)dq[i * ld + c];
    }
};

} // namespace
#endif
