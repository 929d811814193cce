/* pointwise_back_tile_mma.h - tiles of the gradient of a 1x1 convolution: rows
 * of dz in shared memory, and their products with w and with u.
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
    GATED = 4, /* columns of dx that a lane gates and sums */
    LINE_BACK = SQUARES_N * 16 + 8, /* of dz for dw, and of w for dx */
};

/* What dz is made from: d and z [rows, C], the norm of z, dgamma and dbeta. */
template <class T> struct dz_from {
    const T *d, *z;
    norm_of<T> norm;
    const acc<T> *sums;
    int64_t rows, C;
};

/* `width` columns of dz from c on, of `tall` rows from lo on, into `to`, whose
 * rows lie `line` apart; with zeros behind the last row and column. */
template <class T>
FN void load_dz(blk b, T *to, int line, const dz_from<T> &of, int64_t lo,
                int tall, int64_t c, int width)
{
    typedef vec<acc<T>, 8> V;
    enum { AT_ONCE = 2 }; /* rows whose loads are under way together */
    const int across = (width + 15) / 16 * 2, down = b.width() / across;
    const int t = b.lane() % across * 8;
    const int last = of.rows - lo < tall ? (int)(of.rows - lo) : tall;
    const bool is_there = t < width;
    /* Of the norm no more than this stays in registers. */
    V by_d = V::of(0), by_z = V::of(0), rest = V::of(0);

    if (is_there) {
        const dz_cols<T, 8> p(of.norm, of.sums, 1 / (acc<T>)of.rows, of.C,
                              c + t);
        by_d = p.k;
        by_z = p.by_z;
        rest = p.rest;
    }
    const T *d = of.d + lo * of.C + c + t, *z = of.z + lo * of.C + c + t;
    const int row0 = b.lane() / across < down ? b.lane() / across : tall;
    ROLLED for (int r = row0; r < tall; r += AT_ONCE * down)
    {
        typename V::template raw<T> m[AT_ONCE], s[AT_ONCE];
        UNROLL for (int h = 0; h < AT_ONCE; h++)
        {
            const int row = r + h * down;
            m[h] = s[h] = V::of(0).template round<T>();
            if (is_there && row < last) {
                m[h] = V::hold(d + row * of.C);
                s[h] = V::hold(z + row * of.C);
            }
        }
        UNROLL for (int h = 0; h < AT_ONCE; h++)
        {
            const int row = r + h * down;
            if (row >= tall) /* of a narrow tile a lane has fewer rows */
                break;
            V v = by_d * V::open(m[h]) + (by_z * V::open(s[h]) + rest);
            if (!is_there || row >= last)
                v = V::of(0);
            v.store(to + row * line + t);
        }
    }
}

/* PIECE_K rows of w [N, K] from n on into ws, PRODUCT_N columns from c on, some
 * time before the group is waited for; zeros behind the last row and column. */
template <class T>
FN void ask_for_rows(blk b, T *ws, const T *w, int64_t n, int64_t c, int high,
                     int64_t K, int64_t N)
{
    ROLLED for (int i = b.lane(); i < PIECE_K * (PRODUCT_N / 8); i += b.width())
    {
        const int r = i / (PRODUCT_N / 8), k = i % (PRODUCT_N / 8) * 8;
        const bool is_there = n + r < N && k < high;
        copy_async(ws + r * LINE_BACK + k,
                   is_there ? w + (n + r) * K + c + k : w, is_there ? 16 : 0);
    }
    copy_group();
}

/* sum += dz w of 16 rows of dz, `deep` columns of it, and `high` of ws. */
template <class T>
FN void multiply_by_w(float (&sum)[TILES_N][4], const T *dz, const T *ws,
                      int high, int deep, int l)
{
    ROLLED for (int n = 0; n < deep; n += 16)
    {
        unsigned a[4], w[4];
        ldmatrix<4, false>(a, dz + l % 16 * LINE_K + n + l / 16 * 8);
        UNROLL for (int j = 0; j < TILES_N; j += 2)
        {
            if (j * 8 < high) {
                ldmatrix<4, true>(w, ws + (n + l % 16) * LINE_BACK + j * 8 +
                                         l / 16 * 8);
                const unsigned first[2] = {w[0], w[1]};
                const unsigned second[2] = {w[2], w[3]};
                mma_16x8x16<T>(sum[j], a, first);
                mma_16x8x16<T>(sum[j + 1], a, second);
            }
        }
    }
}

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

/* A lane's GATED columns of dx, and its rows of a tile. */
struct own_columns {
    int c, row, down; /* the rows: from `row` on, `down` apart */
    FN own_columns(blk b, int64_t K)
        : c((int)(b.lane() % (K / GATED)) * GATED),
          row((int)(b.lane() / (K / GATED))),
          down((int)(b.width() / (K / GATED)))
    {
    }
};

/* Columns of a matrix in shared memory. Its rows lie 8 more apart: an odd
 * multiple of 8, for ldmatrix. */
FN int whole(int64_t columns)
{
    return (int)(columns + 15) / 16 * 16;
}

#endif
