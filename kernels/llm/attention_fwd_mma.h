/* attention_fwd_mma.h - attention forward on a GPU's tensor cores.
 *
 * Keys of a tile arrive while the values of the one before are multiplied, and
 * values while scores are: 32 kB of shared memory for heads of 128 values. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_FWD_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_FWD_MMA_H

#include "kernels/llm/attention_finite_mma.h"

namespace
{

enum { FWD_KEYS = 64 };

/* What a lane keeps of its two rows while tiles pass. */
template <int D> struct running {
    float out[D / 8][4], top[2], sum[2];

    FN running()
    {
        clear(out);
        UNROLL for (int i = 0; i < 2; i++)
        {
            top[i] = lowest<float>; /* a tile may have no keys for a row */
            sum[i] = 0;
        }
    }
    /* Scores s become exponentials, 2^(to2 (s - top)), with the new maximum;
     * what is summed so far is scaled by it. */
    template <int N> FN void softmax(float (&s)[N][4], float to2)
    {
        float most[2] = {top[0], top[1]};

        UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++)
            most[i / 2] = larger_of(most[i / 2], s[n][i]);
        float keep[2];
        UNROLL for (int i = 0; i < 2; i++)
        {
            most[i] = quad_max(most[i]);
            keep[i] = exp2_fast((top[i] - most[i]) * to2);
            top[i] = most[i];
            most[i] *= to2;
            sum[i] *= keep[i];
        }
        UNROLL for (int n = 0; n < D / 8; n++)
            UNROLL for (int i = 0; i < 4; i++) out[n][i] *= keep[i / 2];
        UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++)
        {
            s[n][i] = exp2_fast(s[n][i] * to2 - most[i / 2]);
            sum[i / 2] += s[n][i];
        }
    }
};

/* Pairs that do not see each other have no score. */
template <class T, int N>
FN void mask_scores(float (&s)[N / 8][4], const query_rows<T> &rows, int y,
                    int t)
{
    UNROLL for (int n = 0; n < N / 8; n++) UNROLL for (int i = 0; i < 4; i++)
    {
        const int key = y + n * 8 + 2 * t + i % 2;
        s[n][i] = rows.sees(i / 2, key) ? s[n][i] : -INFINITY;
    }
}

template <class T, int D>
KERNEL_OF(1)
attend_mma(blk b, T *o, int ldo, float *lse, mma_seen<T> in, mma_units units)
{
    enum { N = FWD_KEYS };
    SHARED_AT(256, uint16_t, k_room, N * D);
    SHARED_AT(256, uint16_t, v_room, N * D);
    T *const ks = (T *)k_room, *const vs = (T *)v_room;
    const mma_lane at(b);
    const float to2 = in.scale * LOG2E;

    for (int nth = 0; units.has(b, nth); nth++) {
        const int u = units.at(b, nth);
        const query_rows<T> rows(in, at, units, u);
        const T *const k = in.k + rows.kv * D, *const v = in.v + rows.kv * D;
        unsigned q[D / 16][4];
        UNROLL for (int i = 0; i < 2; i++)
            load_row<T, D>(q, i, in.q + rows.offset(in, at, i, in.ld, D), at.t);
        running<D> of;
        const int begin = in.first(rows.first) / N * N, end = rows.end;
        fetch_tile<T, D, N>(b, ks, k, in.ld, begin, in.rows);
        copy_group();
        fetch_tile<T, D, N>(b, vs, v, in.ld, begin, in.rows);
        copy_group();
        for (int y = begin; y < end; y += N) {
            float s[N / 8][4];
            clear(s);
            copy_wait<1>();
            b.sync(); /* keys are there */
            add_scores<T, D, N>(s, q, ks, at.lane);
            b.sync(); /* keys are free */
            if (y + N < end)
                fetch_tile<T, D, N>(b, ks, k, in.ld, y + N, in.rows);
            copy_group();
            const bool whole = rows.whole(y, N);
            if (!whole)
                mask_scores<T, N>(s, rows, y, at.t);
            of.softmax(s, to2);
            copy_wait<1>();
            b.sync(); /* values are there */
            if (!whole)
                take_not_finite<T, D, N>(
                    b, of.out, s, vs, at.t,
                    [&](int i, int c) { return rows.sees(i, y + c); });
            add_products<T, D, N>(of.out, s, vs, at.lane);
            b.sync(); /* values are free */
            if (y + N < end)
                fetch_tile<T, D, N>(b, vs, v, in.ld, y + N, in.rows);
            copy_group();
        }
        copy_wait<0>();
        UNROLL for (int i = 0; i < 2; i++)
        {
            const float total = quad_sum(of.sum[i]);
            if (!rows.exists(at, i))
                continue;
            put_row<T, D>(o + rows.offset(in, at, i, ldo, D), of.out, i,
                          1 / total, at.t);
            if (lse && at.t == 0)
                lse[rows.offset(in, at, i, in.heads, 1)] =
                    logf(total) + of.top[i] * in.scale;
        }
    }
}

} // namespace
#endif
