/* pointwise_mma.h - 1x1 convolution on a GPU's tensor cores, in one pass: the
 * norm on the way in, the product, the sums of what comes out.
 *
 * Included by pointwise.cu, within its namespace, for bf16 and fp16. x is read
 * once for each PRODUCT_N columns of z, by blocks that run side by side, so
 * from memory once, and z written once; by norm_rows, a library's product and
 * norm_sums it is 3 in and 2 out.
 */
#ifndef MGPU_KERNELS_CV_POINTWISE_MMA_H
#define MGPU_KERNELS_CV_POINTWISE_MMA_H

#include "kernels/cv/pointwise_walk_mma.h"

/* A lane's 8 columns of z [rows, N]: their sums about an origin, and of
 * squares. */
template <class T> struct z_rows {
    typedef vec<acc<T>, 8> V;
    T *z;
    own_sums<T> to;
    int64_t rows, N;
    const walk_shape &t;
    const walk_part &p;
    own_rows own;
    V sum[2];
    float *origin; /* [p.wide], in shared memory */

    FN z_rows(blk b, T *into, const own_sums<T> &sums, int64_t n_rows,
              int64_t n, const walk_shape &shape, const walk_part &part,
              float *box)
        : z(into + part.c), to(sums), rows(n_rows), N(n), t(shape), p(part),
          own(b, part.wide / 8), sum{V::of(0), V::of(0)}, origin(box)
    {
    }
    /* The mean of the first 8 of a block's rows, or if there are fewer of a
     * power of two of them, which keeps sums of small integers exact. */
    FN void begin(blk b, const T *at, int64_t left)
    {
        V s = V::of(0);
        int n = 8;

        while (n > left)
            n /= 2;
        for (int r = 0; r < n; r++)
            s += V::load(at + r * t.line + own.t);
        if (own.row == 0)
            (s * (1 / (acc<T>)n)).store(origin + own.t);
        b.sync(); /* the origins are there */
    }
    /* A tile from row lo on. */
    FN void take(blk b, const T *at, int64_t lo)
    {
        if (lo == (int64_t)p.lo * t.tall)
            begin(b, at, rows - lo);
        const V o = V::load(origin + own.t);
        const int last = rows - lo < t.tall ? (int)(rows - lo) : t.tall;
        T *into = z + lo * N + own.t;

        at += own.t;
        each_row<1>(
            own, last, [&](int r) { return V::hold(at + r * t.line); },
            [&](int r, const auto &m) {
                V::put(into + r * (int)N, m);
                const V d = V::open(m) - o;
                sum[0] += d;
                sum[1] += d * d;
            });
    }
    FN void leave(blk b, float *box, bool is_first)
    {
        if (to.part)
            leave_sums(b, sum, box, own, to.part + 2 * p.share * N + p.c, N,
                       p.wide, is_first);
    }
    /* What the sums are about; a block without rows has sums of 0. */
    FN void leave_origin(blk b) const
    {
        const int64_t lo = (int64_t)p.lo * t.tall, hi = (int64_t)p.hi * t.tall;
        const bool is_there = p.lo < p.hi;

        for (int64_t k : b.lanes(p.wide))
            to.origin[p.share * N + p.c + k] = is_there ? origin[k] : 0;
        for (int64_t k : b.lanes(p.c == 0))
            to.rows[p.share + k] =
                is_there ? (double)((hi < rows ? hi : rows) - lo) : 0;
    }
};

/* z [rows, N] = u w^T; and unless own.part is NULL the sums of z. The number of
 * blocks is a multiple of the groups of columns. */
template <class T, bool ADDS>
KERNEL_OF_TWO pw_product(blk b, T *z, own_sums<T> own, u_from<T, ADDS> u,
                         const T *w, int64_t N, walk_shape t)
{
    /* Of no class, which g++ would guard like any other static. */
    SHARED(uint16_t, room, WALK_ROOM);
    SHARED(float, box, WALK_COLUMNS + PRODUCT_N);
    const walk_part p(b, t, u.rows, N);
    z_rows<T> out(b, z, own, u.rows, N, t, p, box + WALK_COLUMNS);

    u.y = p.c == 0 ? u.y : nullptr; /* once */
    walk<false, 2>(b, reinterpret_cast<T *>(room), box, t, p, u, w, N, out);
    if (own.part)
        out.leave_origin(b);
}

#endif
