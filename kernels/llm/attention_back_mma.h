/* attention_back_mma.h - the gradient of attention on a GPU's tensor cores: dq
 * by rows of queries, dk and dv by rows of keys, so that no two blocks write to
 * one place.
 *
 * The factor `scale` of ds is left to the end, where dq and dk are stored. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_BACK_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_BACK_MMA_H

#include "kernels/llm/attention_finite_mma.h"

namespace
{

/* Keys, or queries, of a tile that passes. For heads of 128 values the sums of
 * dk and dv are 128 registers of a lane, and the factors 64: a tile of 16
 * leaves it without spills. */
template <int D> constexpr int BACK_TILE = 2048 / D;

template <class T> struct mma_grads {
    T *dq, *dk, *dv;
    const T *dout;
    int ldd, ldo;
    /* [heads, apart, 2]: lse * LOG2E and delta of a query. `apart` is even, so
     * that two queries are 16 bytes that can be copied. */
    const float *about;
    int apart;
};

/* delta = the sum of do * o over a head. */
template <class T, int D>
KERNEL fill_about(blk b, float *about, int64_t apart, const float *lse,
                  const T *dout, const T *o, int64_t ldo, int rows, int heads)
{
    typedef vec<float, 8> V;

    for (int64_t i : b.each((int64_t)rows * heads)) {
        const int row = (int)i / heads, head = (int)i % heads;
        const int64_t at = row * ldo + head * D;
        V s = V::of(0);
        UNROLL for (int c = 0; c < D; c += 8) s +=
            V::load(dout + at + c) * V::load(o + at + c);
        float *to = about + (head * apart + row) * 2;
        to[0] = lse[i] * LOG2E;
        to[1] = s.total();
    }
}

/* Of scores s and dp = do . v: ds in dp. p is left in s. lse2 and delta of the
 * score i of the n-th eight by of(n, i). */
template <int N, class Of>
FN void score_grads(float (&s)[N / 8][4], float (&dp)[N / 8][4], float to2,
                    Of of)
{
    UNROLL for (int n = 0; n < N / 8; n++) UNROLL for (int i = 0; i < 4; i++)
    {
        float lse2, delta;
        of(n, i, &lse2, &delta);
        s[n][i] = exp2_fast(s[n][i] * to2 - lse2);
        dp[n][i] = s[n][i] * (dp[n][i] - delta);
    }
}

} // namespace
#endif
