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

enum { ONE_ROOM = 23040 }; /* 45 KB: of w, and of a tile of dz and of u */

inline bool fits_one(int warps, int64_t N, int64_t K)
{
    const int64_t n = (N + 15) / 16 * 16, k = (K + 15) / 16 * 16;

    return n / 16 * (k / 16) <= SQUARES * warps &&
           BACK_ROWS * (n + 8 + k + 8) + n * (k + 8) <= ONE_ROOM;
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
        UNROLL for (int e = 0; e < 8; e++)
        {
            const int j = e / 2, low = e % 2;
            V v;
            v.v[0] = sum[j][2 * low];
            v.v[1] = sum[j][2 * low + 1];
            if (c + j * 8 < wide)
                v.store(to + (r + l / 4 + low * 8) * (wide + 8) + c + j * 8 +
                        l % 4 * 2);
        }
    }
}

/* What becomes of dx, in `from`, of rows lo..: stored in dx, and its sums of
 * dx (x - mean) and of dx are added to sum. */
template <class T>
FN void gate_rows(vec<acc<T>, GATED> (&sum)[2], T *dx, const T *from, int line,
                  const gate_of<T> &gate, const own_columns &own, int64_t lo,
                  int64_t rows, int64_t K)
{
    typedef vec<acc<T>, GATED> V;
    const int64_t tall = BACK_ROWS, left = rows - lo;
    const int64_t first = lo * K + own.c;
    V mean = V::of(0), scale = mean, shift = mean;

    if (own.row >= own.down)
        return;
    if (gate.x) {
        const norm_cols<T, GATED> p(gate.in, own.c);
        mean = p.mean;
        scale = p.scale;
        shift = p.shift;
    }
    auto load = [&](int64_t r) {
        held2<T, GATED> m;
        m.a = m.b = V::of(0).template round<T>();
        if (gate.x)
            m.a = V::hold(gate.x + first + r * K);
        if (gate.extra)
            m.b = V::hold(gate.extra + first + r * K);
        return m;
    };
    auto use = [&](int64_t r, const held2<T, GATED> &m) {
        V v = V::load(from + r * line + own.c);
        if (gate.extra)
            v += V::open(m.b);
        if (gate.x) {
            const V x = V::open(m.a);
            if (gate.in.cap > 0)
                v = vgate(v, x * scale + shift, gate.in.cap);
            sum[0] += v * (x - mean);
            sum[1] += v;
        }
        v.store(dx + first + r * K);
    };
    in_batches<2>({own.row, left < tall ? left : tall, own.down}, load, use);
}

/* A block's sums of dx * hat and of dx, [2, K]; box is of no further use. */
template <class T>
FN void leave_gated(blk b, const vec<acc<T>, GATED> (&sum)[2], float *box,
                    double *part, const norm_of<T> &in, const own_columns &own,
                    int64_t K)
{
    b.sync(); /* what was in the box is free */
    if (own.row < own.down)
        UNROLL for (int q = 0; q < 2; q++) sum[q].store(
            box + (own.row * 2 + q) * K + own.c);
    b.sync(); /* the sums of all lanes are there */
    for (int64_t i : b.lanes(2 * K)) {
        float s = 0;
        for (int64_t r = 0; r < own.down; r++)
            s += box[r * 2 * K + i];
        part[i] = i < K ? s * in.rstd[i] : s;
    }
}

/* dx [rows, K] = dz w, and what becomes of it, and dws [blocks, N, K] = dz^T u
 * of a block's rows. u NULL: it is norm(x). part [blocks, 2, K] as in
 * pw_back_dx. */
template <class T>
KERNEL_OF_TWO pw_back_one(blk b, T *dx, double *part, float *dws, dz_from<T> dz,
                          const T *u, gate_of<T> gate, const T *w, int64_t K)
{
    SHARED(uint16_t, room, ONE_ROOM);
    const int64_t N = dz.C;
    const int high = whole(N), wide = whole(K), l = b.lane() % 32;
    T *ws = reinterpret_cast<T *>(room), *us = ws + high * (wide + 8);
    T *ds = us + BACK_ROWS * (wide + 8);
    const squares of(b.lane() / 32, high / 16, wide / 16);
    const own_columns own(b, K);
    const T *from = u ? u : gate.x;
    norm_of<T> in = gate.in;
    const range mine = b.share((dz.rows + BACK_ROWS - 1) / BACK_ROWS);
    vec<acc<T>, GATED> gated[2] = {vec<acc<T>, GATED>::of(0),
                                   vec<acc<T>, GATED>::of(0)};
    float sum[SQUARES][2][4];

    UNROLL for (int e = 0; e < SQUARES * 8; e++) sum[e / 8][e / 4 % 2][e % 4] =
        0;
    in.mean = u ? nullptr : in.mean;
    gate.x = part ? gate.x : nullptr;
    ask_for_all(b, ws, w, N, K);
    copy_wait<0>();
    for (int64_t tile = mine.lo; tile < mine.hi; tile++) {
        const int64_t lo = tile * BACK_ROWS;
        load_dz(b, ds, high + 8, dz, lo, BACK_ROWS, 0, (int)N);
        b.sync(); /* dx of the tile before is free */
        load_u<T, 3>(b, us, wide + 8, (T *)nullptr, from, (const T *)nullptr,
                     in, lo, BACK_ROWS, dz.rows, 0, (int)K, K);
        b.sync(); /* w, dz and u of the tile are there */
        multiply_by_u(sum, of, ds, high + 8, us, wide + 8, l);
        b.sync(); /* u is free, for dx */
        multiply_all(b, us, ds, ws, high, wide);
        b.sync(); /* dx is there, dz is free */
        gate_rows(gated, dx, us, wide + 8, gate, own, lo, dz.rows, K);
    }
    leave_dw(sum, of, dws + b.id() * N * K, 0, 0, N, K, l);
    if (part)
        leave_gated(b, gated, reinterpret_cast<float *>(us),
                    part + b.id() * 2 * K, gate.in, own, K);
}
#undef ROLLED

#endif
