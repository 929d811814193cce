/* attention_back_rows.h - attention's gradient for the host.
 *
 * A tile of keys x meets each tile of queries y that sees it. The probabilities
 * of such a pair and the gradients of its scores serve dk and dv, which stay
 * with the tile of keys, and dq, to which a tile of keys adds after the other,
 * from the first one on. For this a block has all tiles from a token that sees
 * none before it to the next such token: a strip. Where the blocks would not
 * have alike much to do, one launch computes dq by tiles of queries and another
 * dk and dv by tiles of keys: each pair twice, with the same sums in the same
 * order. So the choice, which looks at the number of threads, changes no bit.
 */
#ifndef MGPU_KERNELS_LLM_ATTENTION_BACK_ROWS_H
#define MGPU_KERNELS_LLM_ATTENTION_BACK_ROWS_H

#include "kernels/llm/attention_back_tile.h"
#include "kernels/llm/attention_rows.h"

namespace
{

/* Calls f(first tile, end) for each strip. */
template <class T, class F> FN void each_strip(const seen<T> &in, F f)
{
    const int64_t n_tiles = tiles_of(in.rows, SIDE);

    for (int64_t a = 0, b; a < n_tiles; a = b) {
        for (b = a + 1; b < n_tiles && in.first(b * SIDE) < b * SIDE;)
            b++;
        f(a, b);
    }
}

template <class T>
FN void strip_grads(back<T> &by, int64_t kv, int64_t lo, int64_t hi)
{
    typedef acc<T> A;
    const seen<T> &in = by.in;
    const int64_t group = in.group(), n_all = hi - lo;

    by.clear_queries(kv, lo, n_all);
    for (int64_t x = lo; x < hi; x += SIDE) {
        const int64_t n = hi - x < SIDE ? hi - x : (int64_t)SIDE;
        const spans s = spans_of_keys(in, x, n, x, hi);
        by.take_keys(kv, x, n);
        by.take_key_rows(kv, x, n);
        by.clear_keys();
        for (int64_t h = kv * group; h < (kv + 1) * group; h++)
            each_tile<A>(s, hi, [&](int64_t y, int64_t m, const pairs<A> &p) {
                by.meet(h, y, m, p);
                by.add_keys(p);
                by.add_queries(h, y, m, p);
            });
        by.put_keys(kv, x, n);
    }
    by.put_queries(kv, lo, n_all);
}

/* A block's own tile, in its part of the room from `at` on. */
template <class T>
FN back<T> back_of(blk b, const seen<T> &in, const grads<T> &g, acc<T> *dq,
                   int64_t ld, acc<T> *at)
{
    typedef acc<T> A;
    const int64_t size = tile_room<A, widest<A>>::size(in.D, 1);

    return back<T>(in, g, dq, ld, at + b.id() * size);
}

/* A block has the strips that begin in its share of all tiles. */
template <class T>
KERNEL attend_strips(blk b, seen<T> in, grads<T> g, acc<T> *dq, int64_t ld,
                     acc<T> *at)
{
    const range mine = b.share(in.kv_heads * tiles_of(in.rows, SIDE));
    back<T> by = back_of(b, in, g, dq, ld, at);

    each_strip(in, [&](int64_t first, int64_t end) {
        const int64_t to = end * SIDE < in.rows ? end * SIDE : in.rows;
        for (int64_t kv = 0; kv < in.kv_heads; kv++) {
            const int64_t i = first * in.kv_heads + kv * (end - first);
            if (i >= mine.lo && i < mine.hi)
                strip_grads(by, kv, first * SIDE, to);
        }
    });
}

template <class T>
KERNEL attend_keys(blk b, seen<T> in, grads<T> g, acc<T> *dq, int64_t ld,
                   acc<T> *at)
{
    typedef acc<T> A;
    back<T> by = back_of(b, in, g, dq, ld, at);

    for (int64_t i : b.share(in.kv_heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in, in.group());
        const spans s = spans_of_keys(in, u.x, u.n, u.x, in.rows);
        by.take_keys(u.kv, u.x, u.n);
        by.clear_keys();
        for (int64_t h = u.head; h < u.head + u.heads; h++)
            each_tile<A>(s, in.rows,
                         [&](int64_t y, int64_t n, const pairs<A> &p) {
                             by.meet(h, y, n, p);
                             by.add_keys(p);
                         });
        by.put_keys(u.kv, u.x, u.n);
    }
}

template <class T>
KERNEL attend_queries(blk b, seen<T> in, grads<T> g, acc<T> *dq, int64_t ld,
                      acc<T> *at)
{
    typedef acc<T> A;
    back<T> by = back_of(b, in, g, dq, ld, at);

    for (int64_t i : b.share(in.kv_heads * tiles_of(in.rows, SIDE))) {
        const unit u(i, in, in.group());
        const int64_t y = u.x;
        by.clear_queries(u.kv, y, u.n);
        for (int64_t x = in.first(y) / SIDE * SIDE; x <= y; x += SIDE) {
            const int64_t n = in.rows - x < SIDE ? in.rows - x : (int64_t)SIDE;
            const spans s = spans_of_keys(in, x, n, y, y + u.n);
            if (s.to[SIDE - 1] <= y)
                continue;
            const pairs<A> p(s, y);
            by.take_keys(u.kv, x, n);
            by.take_key_rows(u.kv, x, n);
            for (int64_t h = u.head; h < u.head + u.heads; h++) {
                by.meet(h, y, u.n, p);
                by.add_queries(h, y, u.n, p);
            }
        }
        by.put_queries(u.kv, y, u.n);
    }
}

/* Whether blocks with whole strips are done earlier than those with tiles,
 * which compute seven products in place of five: by the pairs of tiles of the
 * block with the most of them. */
template <class T> bool suits_strips(const seen<T> &in, int64_t grid)
{
    const int64_t n = in.kv_heads * tiles_of(in.rows, SIDE),
                  per = (n + grid - 1) / grid;
    int64_t all = 0, most = 0, here = 0, of = -1;

    each_strip(in, [&](int64_t first, int64_t end) {
        int64_t pairs = 0;
        for (int64_t t = first; t < end; t++)
            pairs += t - in.first(t * SIDE) / SIDE + 1;
        for (int64_t kv = 0; kv < in.kv_heads; kv++) {
            const int64_t block =
                (first * in.kv_heads + kv * (end - first)) / per;
            here = (block == of ? here : 0) + pairs;
            of = block;
            most = here > most ? here : most;
            all += pairs;
        }
    });
    return 5 * most * grid <= 7 * all;
}

template <class T>
int run_bwd(struct device *d, const seen<T> &in, grads<T> g, const T *o,
            struct error *err)
{
    typedef acc<T> A;
    const int64_t n = in.rows * in.heads,
                  grid = grid_of(d, in, in.kv_heads * tiles_of(in.rows, SIDE)),
                  size = grid * tile_room<A, widest<A>>::size(in.D, 1),
                  sums = is_rounded<T> ? n * in.D : 0;
    A *room = scratch<A>(d, size + n + sums, err);

    if (!room)
        return -1;
    A *delta = room + size;
    A *dq = is_rounded<T> ? delta + n : (A *)(void *)g.dq;
    const int64_t ld = is_rounded<T> ? in.heads * in.D : g.ldd;
    g.delta = delta;
    take_deltas(d, delta, g.dout, o, g.ldo, in);
    if (suits_strips(in, grid)) {
        launch(d, grid, attend_strips<T>, in, g, dq, ld, room);
    } else {
        launch(d, grid, attend_queries<T>, in, g, dq, ld, room);
        launch(d, grid, attend_keys<T>, in, g, dq, ld, room);
    }
    return 0;
}

} // namespace
#endif
