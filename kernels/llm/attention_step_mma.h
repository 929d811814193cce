/* attention_step_mma.h - a tile of attention in shared memory, and a warp's
 * products with it. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_STEP_MMA_H
#define MGPU_KERNELS_LLM_ATTENTION_STEP_MMA_H

#include "kernels/llm/attention_mma.h"

namespace
{

/* Two values as a word of a fragment, a in its lower half. */
template <class T> FN unsigned pack_two(float a, float b)
{
#ifdef __CUDACC__
    unsigned r;
    if constexpr (dtype_of<T> == DT_BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
    return r;
#else
    const T two[2] = {(T)a, (T)b};
    unsigned r;
    memcpy(&r, two, sizeof(r));
    return r;
#endif
}

/* Two values at an even index, which begin at a multiple of 4 bytes. nvcc
 * compiles memcpy() to copies of single bytes. No kernel reads memory as values
 * after a store_two() to it. */
FN unsigned load_two(const void *p)
{
#ifdef __CUDACC__
    return *static_cast<const unsigned *>(p);
#else
    unsigned two;
    memcpy(&two, p, sizeof(two));
    return two;
#endif
}
FN void store_two(void *p, unsigned two)
{
#ifdef __CUDACC__
    *static_cast<unsigned *>(p) = two;
#else
    memcpy(p, &two, sizeof(two));
#endif
}

/* 2^x to 2^-22 of it; 0 below 2^-126. */
FN float exp2_fast(float x)
{
#ifdef __CUDACC__
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
#else
    return exp2f(x);
#endif
}

/* Of the four lanes that share a row of a product. */
FN float quad_max(float v)
{
    UNROLL for (int m = 1; m < 4; m *= 2) v =
        larger_of(v, __shfl_xor_sync(~0u, v, m));
    return v;
}
FN float quad_sum(float v)
{
    UNROLL for (int m = 1; m < 4; m *= 2) v += __shfl_xor_sync(~0u, v, m);
    return v;
}

/* A tile has N rows of D values. Chunk c, of 8 values, of row r lies at chunk
 * c ^ (r % 8): the 8 rows that ldmatrix reads at once are in different banks.
 * A tile begins at a multiple of the bytes of a row, so another chunk of a row
 * is some flipped bits of its address away. */
template <int D> FN int chunk_at(int r, int c)
{
    return r * D + ((c ^ (r & 7)) * 8);
}

/* Rows y to y + N - 1 of x on their way into a tile; zeros behind `rows`. A
 * lane has one column of chunks. */
template <class T, int D, int N>
FN void fetch_tile(blk b, T *tile, const T *x, int ld, int y, int rows)
{
    enum { ACROSS = D / 8 };
    const int c = b.lane() % ACROSS, down = b.width() / ACROSS;

    ROLLED for (int r = b.lane() / ACROSS; r < N; r += down)
    {
        const bool there = y + r < rows;
        const T *const from = x + (int64_t)(there ? y + r : 0) * ld + c * 8;
        copy_async(tile + chunk_at<D>(r, c), from, there ? 16 : 0);
    }
}

/* A row of 16-bit values as row i of this lane in a fragment A [16, D]. */
template <class T, int D>
FN void load_row(unsigned (&a)[D / 16][4], int i, const T *row, int t)
{
    UNROLL for (int k = 0; k < D / 16; k++) UNROLL for (int j = 0; j < 2; j++)
        a[k][2 * j + i] = load_two(row + k * 16 + j * 8 + 2 * t);
}

/* s [16, N] += a [16, D] tile^T */
template <class T, int D, int N>
FN void add_scores(float (&s)[N / 8][4], const unsigned (&a)[D / 16][4],
                   const T *tile, int lane)
{
    const shared_address at =
        in_shared(tile + chunk_at<D>(lane / 16 * 8 + lane % 8, lane / 8 % 2));

    UNROLL for (int k = 0; k < D / 16; k++)
        UNROLL for (int n = 0; n < N / 16; n++)
    {
        unsigned r[4];
        ldmatrix<4, false>(r, (at ^ (k * 32)) + n * 16 * D * 2);
        const unsigned b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
        mma_16x8x16<T>(s[2 * n], a[k], b0);
        mma_16x8x16<T>(s[2 * n + 1], a[k], b1);
    }
}

/* sum [16, D] += p [16, N] tile */
template <class T, int D, int N>
FN void add_products(float (&sum)[D / 8][4], const float (&p)[N / 8][4],
                     const T *tile, int lane)
{
    const shared_address at =
        in_shared(tile + chunk_at<D>(lane % 16, lane / 16));

    UNROLL for (int k = 0; k < N / 16; k++)
    {
        const unsigned a[4] = {
            pack_two<T>(p[2 * k][0], p[2 * k][1]),
            pack_two<T>(p[2 * k][2], p[2 * k][3]),
            pack_two<T>(p[2 * k + 1][0], p[2 * k + 1][1]),
            pack_two<T>(p[2 * k + 1][2], p[2 * k + 1][3]),
        };
        UNROLL for (int n = 0; n < D / 16; n++)
        {
            unsigned r[4];
            ldmatrix<4, true>(r, (at ^ (n * 32)) + k * 16 * D * 2);
            const unsigned b0[2] = {r[0], r[1]}, b1[2] = {r[2], r[3]};
            mma_16x8x16<T>(sum[2 * n], a, b0);
            mma_16x8x16<T>(sum[2 * n + 1], a, b1);
        }
    }
}

template <int N> FN void clear(float (&x)[N][4])
{
    UNROLL for (int n = 0; n < N; n++) UNROLL for (int i = 0; i < 4; i++)
        x[n][i] = 0;
}

/* Row i of this lane, times `by`, to a row of D values. */
template <class T, int D>
FN void put_row(T *to, const float (&sum)[D / 8][4], int i, float by, int t)
{
    UNROLL for (int n = 0; n < D / 8; n++)
        store_two(to + n * 8 + 2 * t,
                  pack_two<T>(sum[n][2 * i] * by, sum[n][2 * i + 1] * by));
}

} // namespace
#endif
