/* pointwise_back_mma.h - the gradient of a 1x1 convolution on a GPU's tensor
 * cores: dz and u are made in shared memory, gate and sums in registers.
 *
 * Included by pointwise.cu, within its namespace, for bf16 and fp16. pw_back_dx
 * walks over rows as pw_product does, with dz in place of u, and w transposed.
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

/* A lane's 8 of `wide` columns of dx [rows, K], from column c on: their sums of
 * dx (x - mean) and of dx, in part [2, K]. Rows of a tile lie `line` apart. */
template <class T> struct dx_rows {
    typedef vec<acc<T>, 8> V;
    typedef held2<T, 8> held;
    T *dx;
    double *part; /* or NULL */
    gate_of<T> gate;
    const T *any; /* K values, of no interest */
    int64_t rows, K;
    int c, wide, tall, line;
    own_rows own;
    V sum[2];

    FN dx_rows(blk b, T *to, double *sums, const gate_of<T> &of, const T *w,
               int64_t n_rows, int64_t k, int from, int columns, int n_tall,
               int n_line)
        : dx(to), part(sums), gate(of), any(w), rows(n_rows), K(k), c(from),
          wide(columns), tall(n_tall), line(n_line),
          own(b, columns / 8), sum{V::of(0), V::of(0)}
    {
    }
    /* A tile from row lo on. */
    FN void take(blk, const T *at, int64_t lo)
    {
        const int last = rows - lo < tall ? (int)(rows - lo) : tall;
        const int64_t first = lo * K + c + own.t;
        V mean = V::of(0), scale = mean, shift = mean;

        if (gate.x) {
            const norm_cols<T, 8> p(gate.in, c + own.t);
            mean = p.mean;
            scale = p.scale;
            shift = p.shift;
        }
        at += own.t;
        /* What is not wanted is loaded from elsewhere: a load costs less than
         * a choice. */
        const int step = gate.x ? (int)K : 0, more = gate.extra ? (int)K : 0;
        const T *x = gate.x ? gate.x + first : any + c + own.t;
        const T *extra = gate.extra ? gate.extra + first : any + c + own.t;
        auto load = [&](int r) {
            return held{V::hold(x + r * step), V::hold(extra + r * more)};
        };
        each_row<1>(own, last, load, [&](int r, const held &m) {
            V v = V::load(at + r * line);
            if (gate.extra)
                v += V::open(m.b);
            if (gate.x) {
                const V of = V::open(m.a);
                if (gate.in.cap > 0)
                    v = vgate(v, of * scale + shift, gate.in.cap);
                sum[0] += v * (of - mean);
                sum[1] += v;
            }
            v.store(dx + first + r * (int)K);
        });
    }
    FN void leave(blk b, float *box, bool is_first)
    {
        if (!part)
            return;
        const V rstd = V::load(gate.in.rstd + c + own.t);
        sum[0] = sum[0] * rstd;
        leave_sums(b, sum, box, own, part + c, K, wide, is_first);
    }
};

/* dx [rows, K] = dz w, and what becomes of it. part [shares, 2, K]: the sums of
 * dx * hat and of dx, of a share of the rows; NULL: not wanted. */
template <class T>
KERNEL_OF_TWO pw_back_dx(blk b, T *dx, double *part, dz_from<T> dz,
                         gate_of<T> gate, const T *w, int64_t K, walk_shape t)
{
    SHARED(uint16_t, room, WALK_ROOM);
    SHARED(float, box, WALK_COLUMNS);
    const walk_part p(b, t, dz.rows, K);
    dx_rows<T> out(b, dx, part ? part + 2 * p.share * K : nullptr, gate, w,
                   dz.rows, K, p.c, p.wide, t.tall, t.line);

    walk<true, 2>(b, reinterpret_cast<T *>(room), box, t, p, dz, w, K, out);
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

/* part [shares, N, K]: dz^T u of a share of the rows. */
template <class T>
KERNEL_OF_TWO pw_back_dw(blk b, float *part, dz_from<T> dz, u_from<T, false> u,
                         int64_t shares, tile_of_dw t)
{
    SHARED(uint16_t, dz_room, BACK_ROWS * LINE_BACK);
    SHARED(uint16_t, u_room, BACK_ROWS * LINE_K);
    T *ds = reinterpret_cast<T *>(dz_room), *us = reinterpret_cast<T *>(u_room);
    const int l = b.lane() % 32;
    const int64_t N = dz.C, K = u.C;
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
        const own_rows of_dz(b, whole(high) / 8), of_u(b, whole(wide) / 8);
        typename dz_from<T>::factors by_dz;
        typename u_from<T, false>::factors by_u;
        float sum[SQUARES][2][4];
        UNROLL for (int e = 0; e < SQUARES * 8; e++)
            sum[e / 8][e / 4 % 2][e % 4] = 0;
        dz.at(of_dz.t < high ? n + of_dz.t : n, by_dz);
        u.at(of_u.t < wide ? k + of_u.t : k, by_u);
        ROLLED for (int64_t lo = share * per; lo < end && lo < dz.rows;
                    lo += BACK_ROWS)
        {
            fill<2>(ds, LINE_BACK, dz, by_dz, of_dz, lo, BACK_ROWS, n, high);
            fill<3>(us, LINE_K, u, by_u, of_u, lo, BACK_ROWS, k, wide);
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
