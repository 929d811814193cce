/* simd_tile.h - a small matrix product in registers, for the host.
 *
 * A tile is TILE_ROWS rows by a few vectors of columns: with the row's value
 * and the column vectors that fills the registers, 32 of AVX-512 and 16 of
 * AVX2. */
#ifndef MGPU_KERNELS_EXEC_SIMD_TILE_H
#define MGPU_KERNELS_EXEC_SIMD_TILE_H

#include "kernels/exec/exec.h"

namespace
{

enum { TILE_ROWS = VEC_BYTES == 64 ? 8 : 4 };

/* v[i][j] += the sum over k < depth of a(i, k) b(k, j), where a(i, k) is at
 * a[i * across + k * down] and b's row k at b + k * ldb. */
template <class A, int W, int M, int N>
FN void tile(vec<A, W> (&v)[M][N], const A *a, int64_t across, int64_t down,
             const A *b, int64_t ldb, int64_t depth)
{
    typedef vec<A, W> V;

    for (int64_t k = 0; k < depth; k++) {
        V col[N];
        UNROLL for (int j = 0; j < N; j++) col[j] =
            V::load(b + k * ldb + j * W);
        UNROLL for (int i = 0; i < M; i++)
        {
            const V row = V::of(a[i * across + k * down]);
            UNROLL for (int j = 0; j < N; j++) v[i][j] += row * col[j];
        }
    }
}

} // namespace
#endif
