/* attention_dq_mma.h - dq of attention on a GPU's tensor cores. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_DQ_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_DQ_MMA_H

#include "kernels/llm/attention_back_mma.h"

namespace
{

template <class T, int D>
KERNEL_OF(1)
attend_dq_mma(blk b, mma_seen<T> in, mma_grads<T> g, mma_units units)
{
    constexpr int N = BACK_TILE<D>;
    SHARED_AT(256, uint16_t, k_room, 2 * N * D); /* two tiles of each */
    SHARED_AT(256, uint16_t, v_room, 2 * N * D);
    T *const ks = (T *)k_room, *const vs = (T *)v_room;
    const mma_lane at(b);
    const float to2 = in.scale * LOG2E;

    for (int nth = 0; units.has(b, nth); nth++) {
        const int u = units.at(b, nth);
        const query_rows<T> rows(in, at, units, u);
        const int at_kv = rows.kv * D;
        float lse2[2], delta[2];
        UNROLL for (int i = 0; i < 2; i++)
        {
            const float *about =
                g.about + (rows.head(in, at, i) * g.apart + rows.query[i]) * 2;
            lse2[i] = about[0];
            delta[i] = about[1];
        }
        unsigned q[D / 16][4], dout[D / 16][4];
        UNROLL for (int i = 0; i < 2; i++)
        {
            load_row<T, D>(q, i, in.q + rows.offset(in, at, i, in.ld, D), at.t);
            load_row<T, D>(dout, i, g.dout + rows.offset(in, at, i, g.ldo, D),
                           at.t);
        }
        float dq[D / 8][4];
        clear(dq);
        const int begin = in.first(rows.first) / N * N, end = rows.end;
        fetch_tile<T, D, N>(b, ks, in.k + at_kv, in.ld, begin, in.rows);
        fetch_tile<T, D, N>(b, vs, in.v + at_kv, in.ld, begin, in.rows);
        copy_group();
        int odd = 0;
        for (int y = begin; y < end; y += N, odd ^= 1) {
            T *const k_now = ks + odd * N * D, *const v_now = vs + odd * N * D;
            if (y + N < end) {
                const int next = (odd ^ 1) * N * D;
                fetch_tile<T, D, N>(b, ks + next, in.k + at_kv, in.ld, y + N,
                                    in.rows);
                fetch_tile<T, D, N>(b, vs + next, in.v + at_kv, in.ld, y + N,
                                    in.rows);
            }
            copy_group();
            copy_wait<1>();
            b.sync(); /* the tile is there */
            float s[N / 8][4], ds[N / 8][4];
            clear(s);
            clear(ds);
            add_scores<T, D, N>(s, q, k_now, at.lane);
            add_scores<T, D, N>(ds, dout, v_now, at.lane);
            score_grads<N>(s, ds, to2, [&](int, int i, float *l, float *m) {
                *l = lse2[i / 2];
                *m = delta[i / 2];
            });
            if (!rows.whole(y, N)) {
                UNROLL for (int n = 0; n < N / 8; n++)
                    UNROLL for (int i = 0; i < 4; i++)
                {
                    const int key = y + n * 8 + 2 * at.t + i % 2;
                    ds[n][i] = rows.sees(i / 2, key) ? ds[n][i] : 0;
                }
                take_not_finite<T, D, N>(
                    b, dq, ds, k_now, at.t,
                    [&](int i, int c) { return rows.sees(i, y + c); });
            }
            add_products<T, D, N>(dq, ds, k_now, at.lane);
            b.sync(); /* the tile is free */
        }
        copy_wait<0>();
        /* Made again: the registers are for the tiles. */
        const query_rows<T> to(in, at, units, units.at(b, keep(nth)));
        UNROLL for (int i = 0; i < 2; i++) if (to.exists(at, i)) put_row<T, D>(
            g.dq + to.offset(in, at, i, g.ldd, D), dq, i, in.scale, at.t);
    }
}

} // namespace
#endif
