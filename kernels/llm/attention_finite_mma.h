/* attention_finite_mma.h - values of a tile that are not finite, for rows that
 * do not see them. attention_mma.h says why. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_FINITE_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_FINITE_MMA_H

#include "kernels/llm/attention_step_mma.h"

namespace
{

/* All bits of the exponent are set. */
template <class T> FN bool is_finite(unsigned bits)
{
    constexpr unsigned exponent = dtype_of<T> == DT_BF16 ? 0x7f80 : 0x7c00;

    return (bits & exponent) != exponent;
}
template <class T> FN bool are_finite(unsigned two)
{
    return is_finite<T>(two) && is_finite<T>(two >> 16);
}

/* All lanes of the block receive the same answer. */
template <class T, int D, int N> FN bool all_finite(blk b, const T *tile)
{
    bool good = true;

    for (int64_t i : b.lanes(N * D / 2))
        good = good && are_finite<T>(load_two(tile + 2 * i));
    return b.max(good ? 0.0f : 1.0f) == 0;
}

/* sum += p tile, of those values of the tile that are not finite, for rows that
 * see them: sees(i, c) for row i of this lane and row c of the tile. */
template <class T, int D, int N, class See>
FN void add_not_finite(float (&sum)[D / 8][4], const float (&p)[N / 8][4],
                       const T *tile, int t, See sees)
{
    ROLLED for (int c = 0; c < N; c++)
    {
        const bool see[2] = {sees(0, c), sees(1, c)};
        float w[2];
        UNROLL for (int i = 0; i < 2; i++)
        {
            float mine = 0;
            /* kept: else the choice becomes an array in local memory */
            UNROLL for (int n = 0; n < N / 8; n++)
                UNROLL for (int j = 0; j < 2; j++) mine =
                    keep(c == n * 8 + 2 * t + j ? p[n][2 * i + j] : mine);
            w[i] = quad_sum(mine);
        }
        UNROLL for (int n = 0; n < D / 8; n++)
        {
            const unsigned two = load_two(tile + chunk_at<D>(c, n) + 2 * t);
            T v[2];
            memcpy(v, &two, sizeof(two));
            UNROLL for (int i = 0; i < 4; i++)
            {
                const bool is =
                    see[i / 2] && !is_finite<T>(two >> (i % 2 * 16));
                sum[n][i] += is ? w[i / 2] * (float)v[i % 2] : 0.0f;
            }
        }
    }
}

template <class T, int D, int N> FN void clear_not_finite(blk b, T *tile)
{
    for (int64_t i : b.lanes(N * D / 2)) {
        const unsigned two = load_two(tile + 2 * i);
        store_two(tile + 2 * i,
                  (is_finite<T>(two) ? two & 0xffffu : 0) |
                      (is_finite<T>(two >> 16) ? two & 0xffff0000u : 0));
    }
}

/* Before the products of a tile that is not whole. */
template <class T, int D, int N, class See>
FN void take_not_finite(blk b, float (&sum)[D / 8][4],
                        const float (&p)[N / 8][4], T *tile, int t, See sees)
{
    if (all_finite<T, D, N>(b, tile))
        return;
    add_not_finite<T, D, N>(sum, p, tile, t, sees);
    b.sync(); /* what is not finite has been read */
    clear_not_finite<T, D, N>(b, tile);
    b.sync(); /* the tile is finite */
}

} // namespace
#endif
