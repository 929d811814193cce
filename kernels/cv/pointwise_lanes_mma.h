/* pointwise_lanes_mma.h - which rows and columns of a tile a lane has, and the
 * sums of these columns over a block.
 *
 * Included by pointwise_tile_mma.h.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_LANES_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_LANES_MMA_H

enum { NO_ROW = 1 << 30 }; /* of a lane that has none */

/* Loops that nvcc must not unroll: sums fill half of the registers. */
#ifdef __CUDACC__
#define ROLLED _Pragma("unroll 1")
#else
#define ROLLED
#endif

/* A lane's 8 columns of a tile, `across` times 8 wide, and its rows: from `row`
 * on, `down` apart. */
struct own_rows {
    int t, row, down;
    FN own_rows(blk b, int across)
    {
        const unsigned wide = (unsigned)across, lane = (unsigned)b.lane();
        const unsigned first = lane / wide;

        down = (int)((unsigned)b.width() / wide);
        t = (int)(lane - first * wide) * 8;
        row = (int)first < down ? (int)first : (int)NO_ROW;
    }
};

/* Calls use(r, load(r)) for rows r of `own` below `last`, AT_ONCE of whose
 * loads are under way together; returns the row after them. */
template <int AT_ONCE, class L, class U>
FN int each_row(const own_rows &own, int last, L load, U use)
{
    const int down = own.down;
    int r = own.row;

    ROLLED for (; r + (AT_ONCE - 1) * down < last; r += AT_ONCE * down)
    {
        decltype(load(r)) m[AT_ONCE];
        UNROLL for (int h = 0; h < AT_ONCE; h++) m[h] = load(r + h * down);
        UNROLL for (int h = 0; h < AT_ONCE; h++) use(r + h * down, m[h]);
    }
    ROLLED for (; AT_ONCE > 1 && r < last; r += down) use(r, load(r));
    return r;
}

/* Columns of a matrix in shared memory, for ldmatrix. */
FN int whole(int64_t columns)
{
    return (int)(columns + 15) / 16 * 16;
}

/* A block's Q sums of columns, as part [Q, C] of its own, `wide` columns from
 * where it points on; is_first: there was nothing before. Then they are 0. */
template <int Q, class V>
FN void leave_sums(blk b, V (&sum)[Q], float *box, const own_rows &own,
                   double *part, int64_t C, int wide, bool is_first)
{
    if (own.row < own.down)
        UNROLL for (int q = 0; q < Q; q++) sum[q].store(
            box + (own.row * Q + q) * wide + own.t);
    b.sync(); /* the sums of all lanes are there */
    for (int64_t i : b.lanes(Q * wide)) {
        double *to = part + i / wide * C + i % wide, s = is_first ? 0 : *to;
        for (int r = 0; r < own.down; r++)
            s += box[r * Q * wide + i];
        *to = s;
    }
    b.sync(); /* the box is free */
    UNROLL for (int q = 0; q < Q; q++) sum[q] = V::of(0);
}

#endif
