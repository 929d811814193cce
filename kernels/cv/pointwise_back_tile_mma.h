/* pointwise_back_tile_mma.h - tiles of the gradient of a 1x1 convolution's
 * weights: dz^T u of some rows in shared memory.
 *
 * Included by pointwise_back_mma.h.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_BACK_TILE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_BACK_TILE_MMA_H

#include "kernels/cv/pointwise_mma.h"

enum {
    BACK_ROWS = 64, /* of dz and u, that a block adds to dw at once */
    /* Squares of 16 x 16 of dw: 24 sums of a lane in registers. */
    SQUARES = 3,
    SQUARES_N = 4, /* of them in the tile of a block, at most: 64 x 96 of dw */
    SQUARES_K = PRODUCT_K / 16,
    LINE_BACK = SQUARES_N * 16 + 8, /* of dz for dw */
};

/* A warp's squares of a tile of dw, `high` by `wide` of them: where in dw they
 * begin; -1: there are no more. */
struct squares {
    int n[SQUARES], k[SQUARES];
    FN squares(int warp, int high, int wide)
    {
        UNROLL for (int i = 0; i < SQUARES; i++)
        {
            const int at = warp * SQUARES + i;
            n[i] = at < high * wide ? at / wide * 16 : -1;
            k[i] = at % wide * 16;
        }
    }
};

/* sum += dz^T u of BACK_ROWS rows. */
template <class T>
FN void multiply_by_u(float (&sum)[SQUARES][2][4], const squares &of,
                      const T *dz, int dz_line, const T *u, int u_line, int l)
{
    ROLLED for (int r = 0; r < BACK_ROWS; r += 16)
    {
        UNROLL for (int i = 0; i < SQUARES; i++)
        {
            unsigned a[4], v[4];
            if (of.n[i] >= 0) {
                ldmatrix<4, true>(a, dz + (r + l % 8 + l / 16 * 8) * dz_line +
                                         of.n[i] + l / 8 % 2 * 8);
                ldmatrix<4, true>(v, u + (r + l % 16) * u_line + of.k[i] +
                                         l / 16 * 8);
                const unsigned first[2] = {v[0], v[1]};
                const unsigned second[2] = {v[2], v[3]};
                mma_16x8x16<T>(sum[i][0], a, first);
                mma_16x8x16<T>(sum[i][1], a, second);
            }
        }
    }
}

/* The squares of a tile that begins at column n, k of part [N, K]. */
FN void leave_dw(const float (&sum)[SQUARES][2][4], const squares &of,
                 float *part, int64_t n, int64_t k, int64_t N, int64_t K, int l)
{
    typedef vec<float, 2> V;

    UNROLL for (int e = 0; e < SQUARES * 4; e++)
    {
        const int i = e / 4, h = e / 2 % 2, low = e % 2;
        const int64_t row = n + of.n[i] + l / 4 + low * 8;
        const int64_t col = k + of.k[i] + h * 8 + l % 4 * 2;
        if (of.n[i] >= 0 && row < N && col < K) {
            V v;
            v.v[0] = sum[i][h][2 * low];
            v.v[1] = sum[i][h][2 * low + 1];
            v.store(part + row * K + col);
        }
    }
}

#endif
