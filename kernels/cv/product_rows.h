/* product_rows.h - matrix products in registers, for the host's pointwise
 * convolution.
 *
 * Its products are long and thin: many pixels, few channels. A library's GEMM
 * first copies both factors into a layout of its own, which costs a thin
 * product a quarter of its time, and stores its result where the next loop has
 * to load it. Here only the weights are reordered, once per op; the pixels are
 * read in place, and the caller receives the product tile by tile, still in
 * registers, to add, gate, sum and store.
 *
 * A tile is TILE_ROWS rows by up to TILE_VECS vectors of columns: with the
 * row's value and the column vectors that fills the registers, 32 of AVX-512
 * and 16 of AVX2, and takes one load for about two products. Channels are
 * multiples of 8 in every width of the network, so rows of both layouts fit. */
#ifndef MGPU_KERNELS_CV_PRODUCT_ROWS_H
#define MGPU_KERNELS_CV_PRODUCT_ROWS_H

#include "kernels/exec/exec_norm.h"
#include "kernels/exec/simd_tile.h"

namespace
{

enum { TILE_VECS = 3 };

/* n columns, padded to whole vectors. */
template <class A> inline int64_t padded(int64_t n)
{
    return (n + widest<A> - 1) / widest<A> * widest<A>;
}

/* Columns c to c + N vectors of w [depth, n] in the order tile() walks them;
 * w's element (k, j) is at w[k * down + j * across]. Columns past n are 0. */
template <class T>
KERNEL order_columns(blk b, work<T> *to, const T *w, int64_t depth, int64_t n,
                     int64_t down, int64_t across)
{
    const int W = widest<T>, PANEL = TILE_VECS * W;
    const int64_t all = padded<T>(n), panels = (all + PANEL - 1) / PANEL;

    for (int64_t p : b.share(panels)) {
        const int64_t c = p * PANEL, wide = all - c < PANEL ? all - c : PANEL;
        work<T> *at = to + c * depth;
        for (int64_t k0 = 0; k0 < depth; k0 += 16) { /* in the first cache */
            const int64_t end = k0 + 16 < depth ? k0 + 16 : depth;
            for (int64_t j = 0; j < wide; j++)
                for (int64_t k = k0; k < end; k++)
                    at[k * wide + j] =
                        c + j < n ? (work<T>)w[k * down + (c + j) * across] : 0;
        }
    }
}

/* Stores the last vector of a row, if out has `left` columns for it: half of
 * the vector, or one value after the other. lanes [M, W]. Not inline: it is
 * rare, and would be in every tile. */
template <class A, int W, int M, class F>
__attribute__((noinline)) void put_part(const F &out, int64_t r, int64_t c,
                                        int64_t left, const A *lanes)
{
    if (W > 1 && left == W / 2) {
        vec<A, HALF_OF(W)> col[M];
        UNROLL for (int i = 0; i < M; i++) col[i] =
            vec<A, HALF_OF(W)>::load(lanes + i * W);
        out.column(r, c, col);
        return;
    }
    for (int64_t k = 0; k < left; k++) {
        vec<A, 1> col[M];
        UNROLL for (int i = 0; i < M; i++) col[i] =
            vec<A, 1>::load(lanes + i * W + k);
        out.column(r, c + k, col);
    }
}

/* Passes the tile at row r and column c to out, column by column: a vector of
 * each row, or if the out.n columns end within a vector, half of it or one
 * value. */
template <class A, int W, int M, int N, class F>
FN void put(const F &out, int64_t r, int64_t c, vec<A, W> (&v)[M][N])
{
    UNROLL for (int j = 0; j < N; j++)
    {
        const int64_t at = c + j * W, left = out.n - at;
        if (left >= W) {
            vec<A, W> col[M];
            UNROLL for (int i = 0; i < M; i++) col[i] = v[i][j];
            out.column(r, at, col);
        } else if (left > 0) {
            A lanes[M * W];
            UNROLL for (int i = 0; i < M; i++) v[i][j].store(lanes + i * W);
            put_part<A, W, M>(out, r, at, left, lanes);
        }
    }
}

enum { AHEAD = 48 }; /* a few hundred cycles, in rows of the weights */

/* Multiplies a [rows, depth] by the result of order_columns() for out.n
 * columns; calls out.fetch(r, c), to prefetch what out will need there (it may
 * be past the end), and out.column(r, c, col): col[M] are the values of W
 * columns from c on in M rows from r on. */
template <class A, int W, int M, int N, class F>
FN void strip(const A *a, int64_t r, int64_t rows, int64_t depth,
              const A *panel, int64_t c, const F &out)
{
    /* A tile's registers leave no room to load the next one early: prefetch its
     * memory while this one multiplies. */
    const int64_t ahead = M * (1 + AHEAD / depth);

    for (; r + M <= rows; r += M) {
        vec<A, W> v[M][N];
        for (int i = 0; i < M; i++)
            UNROLL for (int j = 0; j < N; j++)
                out.fetch(r + ahead + i, c + j * W);
        UNROLL for (int i = 0; i < M; i++) UNROLL for (int j = 0; j < N; j++)
            v[i][j] = vec<A, W>::of(0);
        tile(v, a + r * depth, depth, 1, panel, N * W, depth);
        put(out, r, c, v);
    }
}
template <class A, int W, int N, class F>
FN void strips(const A *a, int64_t r, int64_t rows, int64_t depth,
               const A *panel, int64_t c, const F &out)
{
    const int64_t whole = r + (rows - r) / TILE_ROWS * TILE_ROWS;

    strip<A, W, TILE_ROWS, N>(a, r, whole, depth, panel, c, out);
    strip<A, W, 1, N>(a, whole, rows, depth, panel, c, out);
}
/* Of the columns in `of`, whole panels. */
template <class A, int W, class F>
FN void product(const A *a, int64_t rows, int64_t depth, const A *ordered,
                range of, const F &out)
{
    const int64_t all = padded<A>(out.n);

    for (int64_t c = of.lo; c < of.hi; c += TILE_VECS * W) {
        const A *panel = ordered + c * depth;
        if (all - c >= 3 * W)
            strips<A, W, 3>(a, 0, rows, depth, panel, c, out);
        else if (all - c == 2 * W)
            strips<A, W, 2>(a, 0, rows, depth, panel, c, out);
        else
            strips<A, W, 1>(a, 0, rows, depth, panel, c, out);
    }
}

/* to [n, ld] (+)= a^T b, with a [rows, n] and b [rows, ld], ld whole vectors;
 * rows i to end of it. */
template <class A, int W, int M, int N>
FN void turned_strip(A *to, const A *a, int64_t i, int64_t end, int64_t n,
                     const A *b, int64_t c, int64_t ld, int64_t rows, bool adds)
{
    for (; i + M <= end; i += M) {
        vec<A, W> v[M][N];
        A *at = to + i * ld + c;
        UNROLL for (int x = 0; x < M; x++) UNROLL for (int y = 0; y < N; y++)
            v[x][y] =
                adds ? vec<A, W>::load(at + x * ld + y * W) : vec<A, W>::of(0);
        tile(v, a + i, 1, n, b + c, ld, rows);
        UNROLL for (int x = 0; x < M; x++) UNROLL for (int y = 0; y < N; y++)
            v[x][y]
                .store(at + x * ld + y * W);
    }
}
template <class A, int W, int N>
FN void turned_strips(A *to, const A *a, int64_t n, const A *b, int64_t c,
                      int64_t ld, int64_t rows, bool adds)
{
    const int64_t whole = n / TILE_ROWS * TILE_ROWS;

    turned_strip<A, W, TILE_ROWS, N>(to, a, 0, whole, n, b, c, ld, rows, adds);
    turned_strip<A, W, 1, N>(to, a, whole, n, n, b, c, ld, rows, adds);
}
template <class A, int W>
FN void turned_product(A *to, const A *a, int64_t n, const A *b, int64_t ld,
                       range of, int64_t rows, bool adds)
{
    for (int64_t c = of.lo; c < of.hi; c += TILE_VECS * W)
        if (ld - c >= 3 * W)
            turned_strips<A, W, 3>(to, a, n, b, c, ld, rows, adds);
        else if (ld - c == 2 * W)
            turned_strips<A, W, 2>(to, a, n, b, c, ld, rows, adds);
        else
            turned_strips<A, W, 1>(to, a, n, b, c, ld, rows, adds);
}

} // namespace
#endif
