/* exec_columns.h - sums over rows, one per column, without atomics.
 *
 * The statistics of batch norm, dgamma and dbeta, the gradient of a bias and
 * that of a depthwise filter are all sums over rows of an [rows, C] array.
 * Each block sums its share of the rows and writes part[block][Q][C]; a
 * second kernel, fold, adds the blocks' parts in order. The same number of
 * blocks thus gives the same bits, which atomic adds would not.
 *
 * A block sums `chunk` rows per lane in registers, over all columns, before
 * it adds them to its part, which is in double whatever the type: the
 * rounding error grows with the chunk, not with the rows. On the host the
 * chunk also decides how memory is walked: a tile of columns is half a cache
 * line, so each line is visited twice per chunk, and has to be in the first
 * cache still. 24 to 64 rows were the fastest for the shapes of MobileNetV2.
 */
#ifndef MGPU_KERNELS_EXEC_COLUMNS_H
#define MGPU_KERNELS_EXEC_COLUMNS_H

#include "kernels/exec.h"

namespace
{

enum { SUM_ROWS = 32 }; /* of one value each; see above */

/* f(column) prepares W columns and returns g(sums, row), which adds what one
 * row gives to their Q sums. What is in part is replaced when this is the
 * first call for it. */
template <class T, int W, int Q, class F>
FN void columns(blk b, double *part, int64_t rows, int64_t C, int64_t chunk,
                bool first, F f)
{
    typedef vec<acc<T>, W> V;
    SHARED(acc<T>, box, MAX_LANES * W);
    const int64_t tiles = C / W;
    const rect lay(b, tiles);
    const range mine = b.share(rows);
    const int64_t step = chunk * lay.down;

    part += b.id() * Q * C;
    /* At least once: a block without rows has to write its zeros. */
    int64_t lo = mine.lo;
    do {
        int64_t hi = lo + step < mine.hi ? lo + step : mine.hi;
        for (int64_t t0 = 0; t0 < tiles; t0 += lay.across) {
            int64_t t = t0 + lay.col;
            bool in = t < tiles && lay.row < lay.down;
            V sums[Q];
            UNROLL for (int q = 0; q < Q; q++) sums[q] = V::of(0);
            if (in) {
                auto g = f(t * W);
                for (int64_t r : lay.rows({lo, hi, 1}))
                    g(sums, r);
            }
            UNROLL for (int q = 0; q < Q; q++)
            {
                V s = sums[q];
                if (lay.down > 1) {
                    s.store(box + b.lane() * W);
                    b.sync();
                    if (in && lay.row == 0)
                        for (int64_t k = 1; k < lay.down; k++)
                            s += V::load(box + (k * lay.across + lay.col) * W);
                    b.sync();
                }
                double *p = part + q * C + t * W;
                if (in && lay.row == 0) {
                    if (first && lo == mine.lo)
                        UNROLL for (int k = 0; k < W; k++) p[k] = s.v[k];
                    else
                        UNROLL for (int k = 0; k < W; k++) p[k] += s.v[k];
                }
            }
        }
        lo += step;
    } while (lo < mine.hi);
}

/* f(column, rows) for W columns and some rows at a time, until all of this
 * block's rows were visited: what belongs to columns is loaded once for many
 * rows, and memory is still walked nearly in order. */
template <int W, class F> FN void tiles(blk b, int64_t rows, int64_t C, F f)
{
    const rect lay(b, C / W);
    const range mine = b.share(rows);
    const int64_t step = 16 * lay.down;

    for (int64_t lo = mine.lo; lo < mine.hi; lo += step) {
        int64_t hi = lo + step < mine.hi ? lo + step : mine.hi;
        for (int64_t t : lay.cols(C / W))
            f(t * W, lay.rows({lo, hi, 1}));
    }
}

/* The parts of one column, in order. */
FN double fold_at(const double *part, int64_t parts, int64_t n, int64_t i)
{
    double s = 0;

    for (int64_t p = 0; p < parts; p++)
        s += part[p * n + i];
    return s;
}

template <class T>
KERNEL fold(blk b, T *out, const double *part, int64_t parts, int64_t n)
{
    for (int64_t i : b.each(n))
        out[i] = (T)fold_at(part, parts, n, i);
}

/* How many parts to make of `rows` rows of `work` values in all. */
inline int64_t parts_for(struct device *d, int64_t work, int64_t rows)
{
    const struct exec_device *e = reinterpret_cast<struct exec_device *>(d);
    int64_t n = work / e->block_work + 1;

    n = n < e->max_parts ? n : e->max_parts;
    return n < rows ? n : rows;
}

} // namespace
#endif
