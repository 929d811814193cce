/* attention_dkv_mma.h - dk and dv of attention on a GPU's tensor cores. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_DKV_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_DKV_MMA_H

#include "kernels/llm/attention_back_mma.h"

namespace
{

/* The end of the tiles of N queries from x on for which is(the tile's first) is
 * true; it is false for all behind one for which it is. All lanes of the block
 * receive the same number. */
template <int N, class Is> FN int end_of_tiles(blk b, int x, Is is)
{
    for (;;) {
        const int mine = x + b.lane() * N;
        const float n = is(mine) ? (float)(b.lane() + 1) : 0.0f;
        const int more = (int)b.max(n);
        x += more * N;
        if (more < b.width())
            return x;
    }
}

/* Queries x to x + N - 1 of head h, with what belongs to them, on their way. */
template <class T, int D, int N>
FN void fetch_queries(blk b, T *q, T *dout, float *about, const mma_seen<T> &in,
                      const mma_grads<T> &g, int h, int x)
{
    const float *const from = g.about + (h * g.apart + x) * 2;

    fetch_tile<T, D, N>(b, q, in.q + h * D, in.ld, x, in.rows);
    fetch_tile<T, D, N>(b, dout, g.dout + h * D, g.ldo, x, in.rows);
    for (int64_t i : b.lanes(N / 2)) {
        const int left = in.rows - x - 2 * (int)i;
        copy_async(about + 4 * i, left > 0 ? from + 4 * i : g.about,
                   left > 1   ? 16
                   : left > 0 ? 8
                              : 0);
    }
    copy_group();
}

template <class T, int D>
KERNEL_OF(1)
attend_dkv_mma(blk b, mma_seen<T> in, mma_grads<T> g, mma_units units)
{
    constexpr int N = BACK_TILE<D>;
    SHARED_AT(256, uint16_t, q_room, 2 * N * D); /* two tiles of each */
    SHARED_AT(256, uint16_t, do_room, 2 * N * D);
    SHARED(float, about, 2 * N * 2);
    T *const qs = (T *)q_room, *const dos = (T *)do_room;
    const mma_lane at(b);
    const float to2 = in.scale * LOG2E;

    for (int nth = 0; units.has(b, nth); nth++) {
        const int u = units.at(b, nth);
        const int kv = units.kv(u), y = units.first(u),
                  last =
                      (in.rows - y < units.tall ? in.rows : y + units.tall) - 1;
        const int key = y + at.row(0); /* and 8 behind it; no query sees one
                                        * that is behind the last */
        unsigned k[D / 16][4], v[D / 16][4];
        UNROLL for (int i = 0; i < 2; i++)
        {
            const int64_t from =
                (int64_t)(key + 8 * i <= last ? key + 8 * i : last) * in.ld +
                kv * D;
            load_row<T, D>(k, i, in.k + from, at.t);
            load_row<T, D>(v, i, in.v + from, at.t);
        }
        float dk[D / 8][4], dv[D / 8][4];
        clear(dk);
        clear(dv);
        /* Queries that see one of the keys, and those that see all. */
        const int begin = y / N * N,
                  end = end_of_tiles<N>(b, begin,
                                        [&](int x) {
                                            return x < in.rows &&
                                                   in.first(x) <= last;
                                        }),
                  whole_end = end_of_tiles<N>(b, begin, [&](int x) {
                      return x + N <= in.rows && in.first(x + N - 1) <= y;
                  });
        fetch_queries<T, D, N>(b, qs, dos, about, in, g, kv * in.group, begin);
        copy_group();
        int odd = 0, j = 0;
        for (int x = begin; x < end; odd ^= 1) {
            T *const q_now = qs + odd * N * D, *const do_now =
                                                   dos + odd * N * D;
            const float *const about_now = about + odd * N * 2;
            const int j_next = j + 1 < in.group ? j + 1 : 0,
                      x_next = j_next ? x : x + N, next = (odd ^ 1) * N;
            if (x_next < end)
                fetch_queries<T, D, N>(b, qs + next * D, dos + next * D,
                                       about + next * 2, in, g,
                                       kv * in.group + j_next, x_next);
            copy_group();
            copy_wait<1>();
            b.sync(); /* the tile is there */
            float p[N / 8][4], ds[N / 8][4];
            clear(p);
            clear(ds);
            add_scores<T, D, N>(p, k, q_now, at.lane);
            add_scores<T, D, N>(ds, v, do_now, at.lane);
            score_grads<N>(p, ds, to2, [&](int n, int i, float *l, float *m) {
                const float *of = about_now + (n * 8 + 2 * at.t + i % 2) * 2;
                *l = of[0];
                *m = of[1];
            });
            if (x < last || x >= whole_end) {
                auto sees = [&](int i, int c) {
                    return x + c < in.rows && key + 8 * i <= x + c &&
                           key + 8 * i >= in.first(x + c);
                };
                UNROLL for (int n = 0; n < N / 8; n++)
                    UNROLL for (int i = 0; i < 4; i++)
                {
                    const bool is = sees(i / 2, n * 8 + 2 * at.t + i % 2);
                    p[n][i] = is ? p[n][i] : 0;
                    ds[n][i] = is ? ds[n][i] : 0;
                }
                take_not_finite<T, D, N>(b, dv, p, do_now, at.t, sees);
                take_not_finite<T, D, N>(b, dk, ds, q_now, at.t, sees);
            }
            add_products<T, D, N>(dv, p, do_now, at.lane);
            add_products<T, D, N>(dk, ds, q_now, at.lane);
            b.sync(); /* the tile is free */
            x = x_next;
            j = j_next;
        }
        copy_wait<0>();
        UNROLL for (int i = 0; i < 2; i++) if (key + 8 * i <= last)
        {
            const int64_t to = (int64_t)(key + 8 * i) * g.ldd + kv * D;
            put_row<T, D>(g.dk + to, dk, i, in.scale, at.t);
            put_row<T, D>(g.dv + to, dv, i, 1, at.t);
        }
    }
}

} // namespace
#endif
