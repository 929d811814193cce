/* pointwise_tile_mma.h - what a 1x1 convolution multiplies, on its way into
 * shared memory: rows of u forward and of dz backward, which are made of what
 * lies in memory, and the weights.
 *
 * Included by pointwise_walk_mma.h.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_TILE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_TILE_MMA_H

#include "kernels/cv/pointwise_lanes_mma.h"

enum {
    PRODUCT_K = 96, /* columns of u or dz in shared memory */
    /* Rows lie 8 values further apart: the 8 that ldmatrix reads at once are
     * in different banks. */
    LINE_K = PRODUCT_K + 8,
};

/* The vectors are of 8 values, and whole. */
template <class T> bool fits_product(int64_t K, int64_t N, uintptr_t addresses)
{
    return sizeof(T) == 2 && K % 8 == 0 && N % 8 == 0 && addresses % 16 == 0 &&
           K < 1 << 20 && N < 1 << 20;
}

/* u [rows, C] = norm(x), and if ADDS + skip; then it goes to y as well. skip
 * and y may be NULL. */
template <class T, bool ADDS> struct u_from {
    typedef vec<acc<T>, 8> V;
    typedef held2<T, 8> held;
    enum { SCALE, SHIFT, FACTORS };
    typedef V factors[FACTORS];
    T *y;
    const T *x, *skip;
    norm_of<T> norm;
    int64_t rows, C;
    T low, high; /* what the norm clamps to */

    u_from(T *keep, const T *from, const T *more, const norm_of<T> &n,
           int64_t n_rows, int64_t n_columns)
        : y(keep), x(from), skip(more), norm(n), rows(n_rows), C(n_columns),
          low((T)(n.cap > 0 ? 0.0f : -INFINITY)),
          high((T)(n.cap > 0 ? (float)n.cap : INFINITY))
    {
    }
    FN void at(int64_t c, factors &f) const
    {
        f[SCALE] = V::of(1);
        f[SHIFT] = V::of(0);
        if (norm.mean) {
            const norm_cols<T, 8> p(norm, c);
            f[SCALE] = p.scale;
            f[SHIFT] = p.shift;
        }
    }
    FN held hold(int64_t first, int i) const
    {
        held m;
        m.a = V::hold(x + first + i);
        if (ADDS && skip)
            m.b = V::hold(skip + first + i);
        return m;
    }
    /* The clamp comes after the rounding, which keeps the order of values; and
     * after the sum, for there is none of clamped ones (adds_clamped). */
    FN void put(T *to, const factors &f, int64_t first, int i,
                const held &m) const
    {
        V v = V::open(m.a) * f[SCALE] + f[SHIFT];
        if (ADDS && skip)
            v += V::open(m.b);
        auto u = v.template round<T>();
        clamp_all<8>(u.e, low, high);
        put_shared(to, u);
        if (ADDS && y)
            V::put(y + first + i, u);
    }
};
template <class T> bool adds_clamped(const T *skip, const norm_of<T> &in)
{
    return skip && in.mean && in.cap > 0;
}

/* dz [rows, C] from d and z, the norm of z, and dgamma and dbeta in `sums`. */
template <class T> struct dz_from {
    typedef vec<acc<T>, 8> V;
    typedef held2<T, 8> held;
    enum { BY_D, BY_Z, REST, FACTORS };
    typedef V factors[FACTORS];
    const T *d, *z;
    norm_of<T> norm;
    const acc<T> *sums;
    int64_t rows, C;

    FN void at(int64_t c, factors &f) const
    {
        const dz_cols<T, 8> p(norm, sums, 1 / (acc<T>)rows, C, c);
        f[BY_D] = p.k;
        f[BY_Z] = p.by_z;
        f[REST] = p.rest;
    }
    FN held hold(int64_t first, int i) const
    {
        return {V::hold(d + first + i), V::hold(z + first + i)};
    }
    FN void put(T *to, const factors &f, int64_t, int, const held &m) const
    {
        const V v = f[BY_D] * V::open(m.a) + (f[BY_Z] * V::open(m.b) + f[REST]);
        put_shared(to, v.template round<T>());
    }
};

/* Factors of `columns` columns from c on in shared memory, `apart` floats each:
 * a few lanes make them for all. */
template <class From>
FN void leave_factors(blk b, float *box, int apart, const From &of, int c,
                      int columns)
{
    for (int i = b.lane() * 8; i < columns; i += b.width() * 8) {
        typename From::factors f;
        of.at(c + i, f);
        UNROLL for (int q = 0; q < From::FACTORS; q++) f[q].store(
            box + q * apart + i);
    }
}
template <class From>
FN void take_factors(typename From::factors &f, const float *box, int apart)
{
    UNROLL for (int q = 0; q < From::FACTORS; q++) f[q] =
        From::V::load(box + q * apart);
}

/* `width` columns from c on of `tall` rows from lo on into `to`, whose rows lie
 * `line` apart, with zeros behind the last row and column. AT_ONCE: rows whose
 * loads are under way together. */
template <int AT_ONCE, class T, class From>
FN void fill(T *to, int line, const From &of, const typename From::factors &f,
             const own_rows &own, int64_t lo, int tall, int64_t c, int width)
{
    const int C = (int)of.C;
    const int there = of.rows - lo < tall ? (int)(of.rows - lo) : tall;
    const int last = own.t < width ? there : 0;
    const int64_t first = lo * of.C + c + own.t;

    to += own.t;
    int r = each_row<AT_ONCE>(
        own, last, [&](int row) { return of.hold(first, row * C); },
        [&](int row, const typename From::held &m) {
            of.put(to + row * line, f, first, row * C, m);
        });
    ROLLED for (; r < tall; r += own.down)
        put_shared(to + r * line, From::V::of(0).template round<T>());
}

/* w [columns, depth] into ws: `wide` columns from c on and `deep` of the depth
 * from k on, some time before they are waited for; zeros behind the depth. */
template <class T>
FN void ask_for_w(T *ws, const T *w, const own_rows &own, int c, int wide,
                  int k, int deep, int depth)
{
    const int bytes = own.t < deep ? 16 : 0;
    const T *from = w + (int64_t)c * depth + (bytes ? k + own.t : 0);

    ROLLED for (int r = own.row; r < wide; r += own.down)
        copy_async(ws + r * LINE_K + own.t, from + (int64_t)r * depth, bytes);
}

/* The same of w [depth, columns]. */
template <class T>
FN void ask_for_rows(T *ws, int line, const T *w, const own_rows &own, int c,
                     int k, int deep, int columns)
{
    const T *from = w + (int64_t)k * columns + c + own.t;

    ROLLED for (int r = own.row; r < whole(deep); r += own.down) copy_async(
        ws + r * line + own.t, from + (int64_t)(r < deep ? r : 0) * columns,
        r < deep ? 16 : 0);
}

#endif
