/* pointwise_back_mma.h - the gradient of a 1x1 convolution on a GPU's tensor
 * cores: dz and u are made in shared memory, gate and sums in registers.
 *
 * Included by pointwise.cu, within its namespace, for bf16 and fp16. pw_back_dx
 * walks over rows as pw_product does, with dz in place of u and w as it lies.
 * pw_back_dw gives a block a tile of dw and a share of the rows, whose sums
 * stay in registers to the end. pw_back_fold adds the blocks' parts in order.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_BACK_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_BACK_MMA_H

#include "kernels/cv/pointwise_back_tile_mma.h"

/* What becomes of dx: + extra, the gate of `in` at x. All three may be NULL. */
template <class T> struct gate_of {
    const T *extra, *x;
    norm_of<T> in;
};

/* dx of a warp's 16 rows, from row lo on, and `high` columns from c on; sum
 * becomes the sums of dx * hat, then those of dx, of a lane's two rows. */
template <class T>
FN void leave_dx(float (&sum)[TILES_N][4], T *dx, const gate_of<T> &gate,
                 int64_t lo, int64_t rows, int64_t c, int high, int64_t K,
                 int l)
{
    typedef vec<acc<T>, 2> V;

    UNROLL for (int j = 0; j < TILES_N; j++)
    {
        V s = V::of(0), q = V::of(0);
        if (j * 8 < high) {
            const int64_t col = c + j * 8 + l % 4 * 2;
            const norm_cols<T, 2> p =
                gate.x ? norm_cols<T, 2>(gate.in, col) : norm_cols<T, 2>();
            UNROLL for (int h = 0; h < 2; h++)
            {
                const int64_t r = lo + l / 4 + h * 8, at = r * K + col;
                V v;
                v.v[0] = sum[j][2 * h];
                v.v[1] = sum[j][2 * h + 1];
                if (r < rows) {
                    const V x = gate.x ? V::load(gate.x + at) : V::of(0);
                    if (gate.extra)
                        v += V::load(gate.extra + at);
                    if (gate.x)
                        v = p.gate(v, x);
                    v.store(dx + at);
                    s += v * p.hat(x);
                    q += v;
                }
            }
        }
        sum[j][0] = s.v[0];
        sum[j][1] = s.v[1];
        sum[j][2] = q.v[0];
        sum[j][3] = q.v[1];
    }
}

/* dx [rows, K] = dz w, and what becomes of it. part [blocks, 2, K]: the sums of
 * dx * hat and of dx, of a block's rows; NULL: not wanted. */
template <class T>
KERNEL_OF_TWO pw_back_dx(blk b, T *dx, double *part, dz_from<T> dz,
                         gate_of<T> gate, const T *w, int64_t K)
{
    SHARED(uint16_t, dz_room, MAX_LANES / 2 * LINE_K);
    SHARED(uint16_t, w_room, 2 * PIECE_K * LINE_BACK);
    SHARED(float, box, MAX_LANES / 32 * 2 * PRODUCT_N);
    T *ds = reinterpret_cast<T *>(dz_room), *ws = reinterpret_cast<T *>(w_room);
    const int warps = b.width() / 32, l = b.lane() % 32, warp = b.lane() / 32;
    const int tall = warps * 16;
    const int64_t N = dz.C;
    const range mine = b.share((dz.rows + tall - 1) / tall);

    if (part) {
        part += b.id() * 2 * K;
        for (int64_t i : b.lanes(2 * K))
            part[i] = 0;
        b.sync(); /* each column has another lane below */
    }
    for (int64_t tile = mine.lo; tile < mine.hi; tile++) {
        const int64_t lo = tile * tall;
        for (int64_t c = 0; c < K; c += PRODUCT_N) {
            const int high = K - c < PRODUCT_N ? (int)(K - c) : (int)PRODUCT_N;
            float sum[TILES_N][4];
            UNROLL for (int e = 0; e < TILES_N * 4; e++) sum[e / 4][e % 4] = 0;
            ROLLED for (int64_t n = 0; n < N; n += PRODUCT_K)
            {
                const int wide =
                    N - n < PRODUCT_K ? (int)(N - n) : (int)PRODUCT_K;
                const int pieces = (wide + PIECE_K - 1) / PIECE_K;
                ask_for_rows(b, ws, w, n, c, high, K, N);
                if (c == 0 || N > PRODUCT_K)
                    load_dz(b, ds, LINE_K, dz, lo, tall, n, wide);
                ROLLED for (int p = 0; p < pieces; p++)
                {
                    T *next = ws + (p + 1) % 2 * PIECE_K * LINE_BACK;
                    if (p + 1 < pieces)
                        ask_for_rows(b, next, w, n + (p + 1) * PIECE_K, c, high,
                                     K, N);
                    else
                        copy_group();
                    copy_wait<1>();
                    b.sync(); /* dz and these rows of w are there */
                    const int left = wide - p * PIECE_K;
                    multiply_by_w(sum, ds + warp * 16 * LINE_K + p * PIECE_K,
                                  ws + p % 2 * PIECE_K * LINE_BACK, high,
                                  left < PIECE_K ? left : (int)PIECE_K, l);
                    b.sync(); /* dz and they are free */
                }
            }
            leave_dx(sum, dx, gate, lo + warp * 16, dz.rows, c, high, K, l);
            if (!part)
                continue;
            sum_rows(sum, box + warp * 2 * PRODUCT_N, l);
            b.sync(); /* the gated sums of all warps are there */
            for (int64_t i : b.lanes(2 * high)) {
                const int64_t q = i / high, col = i % high;
                float s = 0;
                for (int k = 0; k < warps; k++)
                    s += box[(k * 2 + q) * PRODUCT_N + col];
                part[q * K + c + col] += s;
            }
        }
    }
    copy_wait<0>();
}

/* The squares of a block's tile of dw, and such tiles of dw, down and across.
 */
struct tile_of_dw {
    int high, wide;
    int64_t down, across;
};
inline tile_of_dw tile_for(int warps, int64_t N, int64_t K)
{
    const int high = warps < 4 ? 1 : warps < 8 ? warps / 2 : (int)SQUARES_N;
    const int wide = warps < 2 ? (int)SQUARES : (int)SQUARES_K;

    return {high, wide, (N + high * 16 - 1) / (high * 16),
            (K + wide * 16 - 1) / (wide * 16)};
}

/* part [shares, N, K]: dz^T u of a share of the rows. u is norm(x); with
 * in.mean NULL x is u. */
template <class T>
KERNEL_OF_TWO pw_back_dw(blk b, float *part, dz_from<T> dz, const T *x,
                         norm_of<T> in, int64_t K, int64_t shares, tile_of_dw t)
{
    SHARED(uint16_t, dz_room, BACK_ROWS * LINE_BACK);
    SHARED(uint16_t, u_room, BACK_ROWS * LINE_K);
    T *ds = reinterpret_cast<T *>(dz_room), *us = reinterpret_cast<T *>(u_room);
    const int l = b.lane() % 32;
    const int64_t N = dz.C;
    const squares of(b.lane() / 32, t.high, t.wide);
    const int64_t tall = (dz.rows + BACK_ROWS - 1) / BACK_ROWS;
    const int64_t per = (tall + shares - 1) / shares * BACK_ROWS;

    for (int64_t i : b.share(shares * t.down * t.across)) {
        const int64_t share = i / (t.down * t.across);
        const int64_t n = i / t.across % t.down * t.high * 16;
        const int64_t k = i % t.across * t.wide * 16;
        const int high = N - n < t.high * 16 ? (int)(N - n) : t.high * 16;
        const int wide = K - k < t.wide * 16 ? (int)(K - k) : t.wide * 16;
        const int64_t end = (share + 1) * per;
        float sum[SQUARES][2][4];
        UNROLL for (int e = 0; e < SQUARES * 8; e++)
            sum[e / 8][e / 4 % 2][e % 4] = 0;
        ROLLED for (int64_t lo = share * per; lo < end && lo < dz.rows;
                    lo += BACK_ROWS)
        {
            load_dz(b, ds, LINE_BACK, dz, lo, BACK_ROWS, n, high);
            load_u<T, 4>(b, us, LINE_K, (T *)nullptr, x, (const T *)nullptr, in,
                         lo, BACK_ROWS, dz.rows, k, wide, K);
            b.sync(); /* dz and u are there */
            multiply_by_u(sum, of, ds, LINE_BACK, us, LINE_K, l);
            b.sync(); /* dz and u are free */
        }
        leave_dw(sum, of, part + share * N * K, n, k, N, K, l);
    }
}

/* dw from [shares, n], and what norm_fold makes of [parts, 2, C]; with parts 0
 * dw alone. */
template <class T>
KERNEL pw_back_fold(blk b, T *dw, const float *dws, int64_t shares, int64_t n,
                    acc<T> *sums, T *dgamma, T *dbeta, const double *part,
                    int64_t parts, int64_t C)
{
    folds<1>(b, dws, shares, n, n, 0,
             [&](int64_t i, const double *s) { dw[i] = (T)s[0]; });
    if (parts)
        fold_gate(b, sums, dgamma, dbeta, part, parts, C);
}

#endif
