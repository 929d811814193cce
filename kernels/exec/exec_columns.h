/* exec_columns.h - sums over rows, one per column, without atomics.
 *
 * The statistics of batch norm, dgamma and dbeta, the gradient of a bias and
 * that of a depthwise filter are all sums over rows of an [rows, C] array.
 * Each block sums its share of the rows and writes part[block][Q][C]; a
 * second kernel, fold, adds the blocks' parts in order. The same number of
 * blocks thus gives the same bits, which atomic adds would not. On the host the
 * shape alone decides about that number, parts_for(), so the number of threads
 * changes no bit.
 *
 * A block sums `chunk` rows per lane in registers, over all columns, before it
 * adds them to its part, which is in double whatever the type: the rounding
 * error grows with the chunk, not with the rows. On the host the chunk also
 * decides how memory is walked: a tile of columns is half a cache line, so each
 * line is visited twice per chunk, and must still be in the L1 cache. 24 to 64
 * rows were the fastest for the shapes of MobileNetV2. */
#ifndef MGPU_KERNELS_EXEC_EXEC_COLUMNS_H
#define MGPU_KERNELS_EXEC_EXEC_COLUMNS_H

#include "kernels/exec/exec_launch.h"

namespace
{

#ifdef EXEC_CUDA
/* Of one value each. Lanes that share columns combine their sums after a chunk,
 * which takes as long as some rows do. */
enum { SUM_ROWS = 64 };
/* A GPU sums an op's rows in one launch, the host some of them at a time. */
constexpr bool at_one_go = true;
#else
enum { SUM_ROWS = 32 }; /* see above */
constexpr bool at_one_go = false;
#endif

/* Calls use(r, load(r)) for each r. Memory latency is some 700 ns, and the
 * compiler moves no load across the store of the previous row: on a GPU, B rows
 * are loaded before the first of them is used. */
template <int B, class L, class U> FN void in_batches(range of, L load, U use)
{
    int64_t r = of.lo;

#ifdef EXEC_CUDA
    for (; B > 1 && r + (B - 1) * of.step < of.hi; r += B * of.step) {
        decltype(load(r)) x[B];
        UNROLL for (int k = 0; k < B; k++) x[k] = load(r + k * of.step);
        UNROLL for (int k = 0; k < B; k++) use(r + k * of.step, x[k]);
    }
#endif
    for (; r < of.hi; r += of.step)
        use(r, load(r));
}

/* The work of columns() on a row: use(sums, row, load(row)). */
template <int B, class L, class U> struct row_sum {
    L load;
    U use;
    template <class V> FN void rows(V *sums, range of) const
    {
        in_batches<B>(of, load,
                      [&](int64_t r, decltype(load(r)) x) { use(sums, r, x); });
    }
};
template <int B, class L, class U> FN row_sum<B, L, U> by_row(L load, U use)
{
    return {load, use};
}
/* The same without a separate load. */
struct nothing {
    FN int operator()(int64_t) const
    {
        return 0;
    }
};
template <class U> FN row_sum<1, nothing, U> by_row(U use)
{
    return {nothing(), use};
}

/* f(column) prepares W columns and returns a row_sum, which adds a row's values
 * to their Q sums. The first call for a part overwrites it. */
template <class T, int W, int Q, class P, class F>
FN void columns(blk b, P *part, int64_t rows, int64_t C, int64_t chunk,
                bool first, F f)
{
    typedef vec<acc<T>, W> V;
    SHARED(acc<T>, box, MAX_LANES * W);
    const int64_t tiles = C / W;
    const rect lay(b, tiles);
    const range mine = b.share(rows);
    const int64_t step = chunk * lay.down;

    part += b.id() * Q * C;
    /* At least once: a block without rows has to write zeros. */
    int64_t lo = mine.lo;
    do {
        int64_t hi = lo + step < mine.hi ? lo + step : mine.hi;
        for (int64_t t0 = 0; t0 < tiles; t0 += lay.across) {
            int64_t t = t0 + lay.col;
            bool in = t < tiles && lay.row < lay.down;
            V sums[Q];
            UNROLL for (int q = 0; q < Q; q++) sums[q] = V::of(0);
            if (in) {
                f(t * W).rows(sums, lay.rows({lo, hi, 1}));
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
                P *p = part + q * C + t * W;
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

/* Calls f(column, rows) for W columns and some rows at a time, until it has
 * visited all of this block's rows: values per column are loaded once for many
 * rows, and memory is still read nearly in order. */
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
template <class P>
FN double fold_at(const P *part, int64_t parts, int64_t n, int64_t i)
{
    double s = 0;

    for (int64_t p = 0; p < parts; p++)
        s += part[p * n + i];
    return s;
}

#ifdef EXEC_CUDA
/* f(i, sums) for i in 0..n; read(sums, p, i) adds part p of i to its sums. */
template <int Q, int COLUMNS, class R, class F>
FN void folds_of(blk b, int64_t parts, int64_t n, R read, F f)
{
    const int slots = MAX_LANES * Q;
    SHARED(double, box, slots);
    const int across = b.width() < COLUMNS ? b.width() : COLUMNS;
    const int down = b.width() / across;
    const int col = b.lane() % across, line = b.lane() / across;
    const range mine = b.share(n, across);

    for (int64_t i = mine.lo + col; i - col < mine.hi; i += across) {
        const bool in = i < mine.hi && line < down;
        double s[Q];
        UNROLL for (int q = 0; q < Q; q++) s[q] = 0;
        for (int64_t p = line; in && p < parts; p += down)
            read(s, p, i);
        UNROLL for (int q = 0; q < Q; q++) box[q * MAX_LANES + b.lane()] = s[q];
        b.sync();
        if (in && line == 0) {
            for (int k = 1; k < down; k++)
                UNROLL for (int q = 0; q < Q; q++) s[q] +=
                    box[q * MAX_LANES + k * across + col];
            f(i, s);
        }
        b.sync();
    }
}
#endif

/* f(i, sums) for i in 0..n: sums[q] is that of column i + q * apart of part
 * [parts, row]. On a GPU the lanes of a block share the parts of 32 columns,
 * and their sums are added in order: a single lane would wait for memory
 * `parts` times, longer than many layers take. */
enum { FOLD_COLUMNS = 32 };
template <int Q, class P, class F>
FN void folds(blk b, const P *part, int64_t parts, int64_t row, int64_t n,
              int64_t apart, F f)
{
#ifdef EXEC_CUDA
    folds_of<Q, FOLD_COLUMNS>(
        b, parts, n,
        [=](double *s, int64_t p, int64_t i) {
            UNROLL for (int q = 0; q < Q; q++) s[q] +=
                part[p * row + i + q * apart];
        },
        f);
#else
    for (int64_t i : b.each(n)) {
        double s[Q];
        for (int q = 0; q < Q; q++)
            s[q] = fold_at(part, parts, row, i + q * apart);
        f(i, s);
    }
#endif
}

/* Number of blocks for folds() of n columns. */
inline int64_t fold_blocks(struct device *d, int64_t n)
{
#ifdef EXEC_CUDA
    return blocks(d, n * exec_of(d)->block_work,
                  (n + FOLD_COLUMNS - 1) / FOLD_COLUMNS);
#else
    return blocks(d, n);
#endif
}

template <class T>
KERNEL fold(blk b, T *out, const double *part, int64_t parts, int64_t n)
{
    folds<1>(b, part, parts, n, n, 0,
             [&](int64_t i, const double *s) { out[i] = (T)s[0]; });
}

/* How many parts to split `rows` rows of `work` values in total into. On the
 * host a power of two, which most numbers of cores share evenly, by the shape
 * alone; a part has `least` rows or more, so that clearing and adding its sums
 * takes a few per cent of the time to make them. */
enum { PART_ROWS = 64 };
inline int64_t parts_for(struct device *d, int64_t work, int64_t rows,
                         int64_t least = PART_ROWS)
{
    const struct exec_device *e = reinterpret_cast<struct exec_device *>(d);
    int64_t n = work / e->block_work + 1;

    n = n < e->max_parts ? n : e->max_parts;
#ifdef EXEC_CUDA
    (void)least;
    return n < rows ? n : rows;
#else
    const int64_t most = rows / least;
    int64_t parts = 1;
    while (2 * parts <= n && 2 * parts <= most)
        parts *= 2;
    return parts < rows ? parts : rows;
#endif
}

} // namespace
#endif
