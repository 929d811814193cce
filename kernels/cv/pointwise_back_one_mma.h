/* pointwise_back_one_mma.h - the gradient of a narrow 1x1 convolution on a
 * GPU's tensor cores, in one pass over the rows.
 *
 * Included by pointwise.cu, within its namespace, for bf16 and fp16, after
 * pointwise_back_mma.h. The layers of large images are narrow: all of w lies in
 * shared memory, and all of a block's dw in its lanes' registers. So a block
 * makes BACK_ROWS rows of dz and u, adds dz^T u to dw, puts dz w where u was,
 * and gates, sums and stores that by rows. d, z and u are read once; x for the
 * gate, too, from a cache where it was u's source.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_BACK_ONE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_BACK_ONE_MMA_H

#include "kernels/cv/pointwise_back_mma.h"

enum {
    ONE_ROOM = 23040,  /* 45 KB: of w, and of a tile of dz and of u */
    ONE_COLUMNS = 640, /* floats: the factors of dz and u */
};

inline bool fits_one(int warps, int64_t N, int64_t K)
{
    const int64_t n = (N + 15) / 16 * 16, k = (K + 15) / 16 * 16;

    return n / 16 * (k / 16) <= SQUARES * warps &&
           BACK_ROWS * (n + 8 + k + 8) + n * (k + 8) <= ONE_ROOM &&
           3 * N + 2 * K <= ONE_COLUMNS;
}

/* All of w [N, K] into ws, some time before the group is waited for; zeros
 * behind the last row and column. */
template <class T>
FN void ask_for_all(blk b, T *ws, const T *w, int64_t N, int64_t K)
{
    const int across = whole(K) / 8;

    ROLLED for (int i = b.lane(); i < whole(N) * across; i += b.width())
    {
        const int r = i / across, k = i % across * 8;
        const bool is_there = r < N && k < K;
        copy_async(ws + r * (across * 8 + 8) + k, is_there ? w + r * K + k : w,
                   is_there ? 16 : 0);
    }
    copy_group();
}

/* dz w of BACK_ROWS rows into `to`, whose rows lie as far apart as those of
 * ws; a warp takes 16 rows and 32 columns at a time. */
template <class T>
FN void multiply_all(blk b, T *to, const T *dz, const T *ws, int high, int wide)
{
    typedef vec<acc<T>, 2> V;
    const int across = (wide + 31) / 32, l = b.lane() % 32;

    ROLLED for (int i = b.lane() / 32; i < BACK_ROWS / 16 * across;
                i += b.width() / 32)
    {
        const int r = i / across * 16, c = i % across * 32;
        float sum[4][4];
        UNROLL for (int e = 0; e < 16; e++) sum[e / 4][e % 4] = 0;
        ROLLED for (int n = 0; n < high; n += 16)
        {
            unsigned a[4], v[4];
            ldmatrix<4, false>(a,
                               dz + (r + l % 16) * (high + 8) + n + l / 16 * 8);
            UNROLL for (int j = 0; j < 4; j += 2)
            {
                if (c + j * 8 < wide) {
                    ldmatrix<4, true>(v, ws + (n + l % 16) * (wide + 8) + c +
                                             j * 8 + l / 16 * 8);
                    const unsigned first[2] = {v[0], v[1]};
                    const unsigned second[2] = {v[2], v[3]};
                    mma_16x8x16<T>(sum[j], a, first);
                    mma_16x8x16<T>(sum[j + 1], a, second);
                }
            }
        }
        T *at = to + (r + l / 4) * (wide + 8) + c + l % 4 * 2;
        UNROLL for (int e = 0; e < 8; e++)
        {
            const int j = e / 2, low = e % 2;
            V v;
            v.v[0] = sum[j][2 * low];
            v.v[1] = sum[j][2 * low + 1];
            if (c + j * 8 < wide)
                put_shared(at + low * 8 * (wide + 8) + j * 8,
                           v.template round<T>());
        }
    }
}

/* dx [rows, K] = dz w, and what becomes of it, and dws [blocks, N, K] = dz^T u
 * of a block's rows. part [blocks, 2, K] as in pw_back_dx. */
template <class T>
KERNEL_OF_TWO pw_back_one(blk b, T *dx, double *part, float *dws, dz_from<T> dz,
                          u_from<T, false> u, gate_of<T> gate, const T *w)
{
    SHARED(uint16_t, room, ONE_ROOM);
    SHARED(float, box, ONE_COLUMNS);
    const int64_t N = dz.C, K = u.C;
    const int high = whole(N), wide = whole(K), l = b.lane() % 32;
    T *ws = reinterpret_cast<T *>(room), *us = ws + high * (wide + 8);
    T *ds = us + BACK_ROWS * (wide + 8);
    const squares of(b.lane() / 32, high / 16, wide / 16);
    const own_rows of_dz(b, high / 8), of_u(b, wide / 8);
    const range mine = b.share((dz.rows + BACK_ROWS - 1) / BACK_ROWS);
    dx_rows<T> out(b, dx, part ? part + b.id() * 2 * K : nullptr, gate, w,
                   dz.rows, K, 0, (int)K, BACK_ROWS, wide + 8);
    float sum[SQUARES][2][4];

    UNROLL for (int e = 0; e < SQUARES * 8; e++) sum[e / 8][e / 4 % 2][e % 4] =
        0;
    ask_for_all(b, ws, w, N, K);
    leave_factors(b, box, (int)N, dz, 0, (int)N);
    leave_factors(b, box + 3 * N, (int)K, u, 0, (int)K);
    copy_wait<0>();
    b.sync(); /* the factors are there */
    const int end = (int)mine.hi;
    ROLLED for (int tile = (int)mine.lo; tile < end; tile++)
    {
        const int64_t lo = (int64_t)tile * BACK_ROWS;
        typename dz_from<T>::factors by_dz;
        typename u_from<T, false>::factors by_u;
        take_factors<dz_from<T>>(by_dz, box + (of_dz.t < N ? of_dz.t : 0),
                                 (int)N);
        fill<2>(ds, high + 8, dz, by_dz, of_dz, lo, BACK_ROWS, 0, (int)N);
        b.sync(); /* dx of the tile before is free */
        take_factors<u_from<T, false>>(
            by_u, box + 3 * N + (of_u.t < K ? of_u.t : 0), (int)K);
        fill<3>(us, wide + 8, u, by_u, of_u, lo, BACK_ROWS, 0, (int)K);
        b.sync(); /* w, dz and u of the tile are there */
        multiply_by_u(sum, of, ds, high + 8, us, wide + 8, l);
        b.sync(); /* u is free, for dx */
        multiply_all(b, us, ds, ws, high, wide);
        b.sync(); /* dx is there, dz is free */
        out.take(b, us, lo);
    }
    leave_dw(sum, of, dws + b.id() * N * K, 0, 0, N, K, l);
    b.sync(); /* dx is free */
    out.leave(b, reinterpret_cast<float *>(us), true);
}
#undef ROLLED

#endif
