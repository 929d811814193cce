/* pointwise_walk_mma.h - the product of a 1x1 convolution on a GPU's tensor
 * cores: forward of u and the weights, backward of dz and the weights.
 *
 * Included by pointwise_mma.h. A block has some columns of the result, at most
 * PRODUCT_N, and walks over its rows, a tile at a time: the rows of u or dz are
 * made in shared memory (pointwise_tile_mma.h), the warps multiply them, and
 * the product goes through shared memory, rounded, to lanes that have columns
 * of their own. They sum some rows in registers before the block adds its
 * lanes' sums in double. Rows and columns are summed in a fixed order.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_WALK_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_WALK_MMA_H

#include "kernels/cv/pointwise_tile_mma.h"

enum {
    WARP_N = 64, /* columns of a warp: 32 sums of a lane in registers */
    TILES_N = WARP_N / 8,
    PRODUCT_N = 2 * WARP_N,
    LINE_N = PRODUCT_N + 8,
    /* Of 16 bits: the weights, and the rows of u or of the product, 43 KB. */
    WALK_ROOM = PRODUCT_N * LINE_K + MAX_LANES / 4 * LINE_N,
    WALK_COLUMNS = 3 * PRODUCT_K, /* floats: the factors of a part of u or dz */
};

/* How a block divides its rows and columns. */
struct walk_shape {
    int across; /* warps side by side */
    int tall;   /* rows of a tile */
    int line;   /* of the product in shared memory, and of weights backward */
    int room;   /* of a tile; the weights lie behind it */
    int groups, wide; /* of columns: how many, and a group's */
};
inline walk_shape walk_for(int warps, int64_t columns)
{
    walk_shape t;

    t.across = columns > WARP_N && warps % 2 == 0 ? 2 : 1;
    t.tall = warps / t.across * 16;
    t.line = t.across * WARP_N + 8;
    t.room = t.tall * (t.line > LINE_K ? t.line : (int)LINE_K);
    t.groups = (int)((columns + t.across * WARP_N - 1) / (t.across * WARP_N));
    t.wide = (int)((columns + t.groups * 8 - 1) / (t.groups * 8) * 8);
    return t;
}

/* What a block does: tiles lo to hi of the rows, `wide` columns from c on. */
struct walk_part {
    int share, lo, hi, c, wide;
    FN walk_part(blk b, const walk_shape &t, int64_t rows, int64_t columns)
        : share((int)b.id() / t.groups), c((int)b.id() % t.groups * t.wide)
    {
        const unsigned tall = (unsigned)t.tall;
        const int all = (int)(((unsigned)rows + tall - 1) / tall);
        const int shares = (int)b.count() / t.groups;
        const int per = (all + shares - 1) / shares;
        lo = share * per < all ? share * per : all;
        hi = lo + per < all ? lo + per : all;
        wide = (int)columns - c < t.wide ? (int)columns - c : t.wide;
    }
};

/* sum += rows w of 16 rows, `deep` of the depth, and `high` columns. IS_BACK:
 * w lies as [depth, columns]. */
template <bool IS_BACK, class T>
FN void multiply(float (&sum)[TILES_N][4], const T *rows, const T *ws, int line,
                 int high, int deep, int l)
{
    rows += l % 16 * LINE_K + l / 16 * 8;
    ws += IS_BACK ? l % 16 * line + l / 16 * 8
                  : (l / 16 * 8 + l % 8) * LINE_K + l / 8 % 2 * 8;
    ROLLED for (int k = 0; k < deep; k += 16)
    {
        unsigned a[4], w[4];
        ldmatrix<4, false>(a, rows);
        UNROLL for (int j = 0; j < TILES_N; j += 2)
        {
            if (j * 8 < high) {
                ldmatrix<4, IS_BACK>(w, ws + j * 8 * (IS_BACK ? 1 : LINE_K));
                const unsigned first[2] = {w[0], w[1]};
                const unsigned second[2] = {w[2], w[3]};
                mma_16x8x16<T>(sum[j], a, first);
                mma_16x8x16<T>(sum[j + 1], a, second);
            }
        }
        rows += 16;
        ws += IS_BACK ? 16 * line : 16;
    }
}

/* A warp's 16 rows of the product, rounded, into `to`. */
template <class T>
FN void leave_product(T *to, int line, const float (&sum)[TILES_N][4], int high,
                      int l)
{
    typedef vec<float, 2> V;

    to += l / 4 * line + l % 4 * 2;
    UNROLL for (int e = 0; e < TILES_N * 2; e++)
    {
        const int j = e / 2, low = e % 2;
        V v;
        v.v[0] = sum[j][2 * low];
        v.v[1] = sum[j][2 * low + 1];
        if (j * 8 < high)
            put_shared(to + low * 8 * line + j * 8, v.template round<T>());
    }
}

/* The product of `of` [rows, depth] and a part's columns of w. out.take(b,
 * rows, lo) gets each tile, in shared memory, t.line apart; out.leave(b, box,
 * is_first) adds what it has summed since the last call to the block's sums. */
template <bool IS_BACK, int AT_ONCE, class T, class From, class Out>
FN void walk(blk b, T *room, float *box, const walk_shape &t,
             const walk_part &p, const From &of, const T *w, int64_t columns,
             Out &out)
{
    const int l = b.lane() % 32, warp = b.lane() / 32;
    const int half = t.across == 1 ? p.wide : (p.wide + 31) / 32 * 16;
    const int left = warp % t.across * half, low = warp / t.across * 16;
    const int high = p.wide - left < half ? p.wide - left : half;
    const int depth = (int)of.C;
    const bool is_held = depth <= PRODUCT_K; /* w is, for all tiles */
    /* Tiles until a lane has summed SUM_ROWS rows. */
    const int most = SUM_ROWS / ((t.tall - 1) / out.own.down + 1);
    bool is_first = true;
    int summed = 0;
    T *ws = room + t.room;

    auto factors = [&](int k) {
        leave_factors(b, box, PRODUCT_K, of, k,
                      depth - k < PRODUCT_K ? depth - k : (int)PRODUCT_K);
    };
    auto ask = [&](const own_rows &own, int k, int deep) {
        if (IS_BACK)
            ask_for_rows(ws, t.line, w, own_rows(b, p.wide / 8), p.c, k, deep,
                         (int)columns);
        else
            ask_for_w(ws, w, own, p.c, p.wide, k, deep, depth);
        copy_group();
    };
    factors(0);
    if (is_held)
        ask(own_rows(b, whole(depth) / 8), 0, depth);
    b.sync(); /* the factors are there */
    ROLLED for (int tile = p.lo; tile < p.hi; tile++)
    {
        const int64_t lo = (int64_t)tile * t.tall;
        float sum[TILES_N][4];
        UNROLL for (int e = 0; e < TILES_N * 4; e++) sum[e / 4][e % 4] = 0;
        ROLLED for (int k = 0; k < depth; k += PRODUCT_K)
        {
            const int deep = depth - k < PRODUCT_K ? depth - k : (int)PRODUCT_K;
            const own_rows own(b, whole(deep) / 8);
            typename From::factors f;
            if (!is_held)
                ask(own, k, deep);
            take_factors<From>(f, box + own.t, PRODUCT_K);
            fill<AT_ONCE>(room, LINE_K, of, f, own, lo, t.tall, k, deep);
            copy_wait<0>();
            b.sync(); /* the rows and w are there */
            if (!is_held)
                factors(k + PRODUCT_K < depth ? k + PRODUCT_K : 0);
            multiply<IS_BACK>(sum, room + low * LINE_K,
                              ws + left * (IS_BACK ? 1 : (int)LINE_K), t.line,
                              high, deep, l);
            b.sync(); /* the rows and w are free, the factors there */
        }
        leave_product(room + low * t.line + left, t.line, sum, high, l);
        b.sync(); /* the product is there */
        out.take(b, room, lo);
        b.sync(); /* the product is free */
        if (++summed == most || tile + 1 == p.hi) {
            out.leave(b, reinterpret_cast<float *>(room), is_first);
            is_first = false;
            summed = 0;
        }
    }
    copy_wait<0>();
    if (is_first)
        out.leave(b, reinterpret_cast<float *>(room), true);
}

#endif
