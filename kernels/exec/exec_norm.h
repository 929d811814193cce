/* exec_norm.h - batch norm fused into other kernels: applied when they read,
 * and summed when they write.
 *
 * The output z of a convolution is stored without its norm. The kernel that
 * reads it applies norm and clamp, u = clamp((z - mean) * rstd * gamma + beta),
 * and the kernel that writes it computes its column sums. So a wide tensor is
 * written once and read once in each direction, where separate kernels would
 * move it five times and nine.
 *
 * Of the gradient, d is stored, before the norm and after the clamp: d = dL/du
 * where the clamp did not clip, else 0. From d, its two column sums (which are
 * dgamma and dbeta) and z the next kernel computes dz = gamma * rstd * (d -
 * (hat * dgamma + dbeta) / rows). */
#ifndef MGPU_KERNELS_EXEC_EXEC_NORM_H
#define MGPU_KERNELS_EXEC_EXEC_NORM_H

#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

/* struct norm with its types; mean NULL: u = x. */
template <class T> struct norm_of {
    const acc<T> *mean, *rstd;
    const T *gamma, *beta;
    acc<T> cap;
    norm_of(const struct norm *n)
        : mean(n ? (const acc<T> *)n->mean : nullptr),
          rstd(n ? (const acc<T> *)n->rstd : nullptr),
          gamma(n ? (const T *)n->gamma : nullptr),
          beta(n ? (const T *)n->beta : nullptr), cap(n ? (acc<T>)n->cap : 0)
    {
    }
};

#ifdef EXEC_CUDA
template <class T> inline uintptr_t bits_of(norm_of<T> n)
{
    return (uintptr_t)n.mean | (uintptr_t)n.rstd | (uintptr_t)n.gamma |
           (uintptr_t)n.beta;
}
#endif

/* On a GPU a norm of 16-bit values is one multiply-add per value. Its rounding
 * grows with mean / deviation, 2^-24 each, and stays below that of the values
 * for as long as they have digits: types of 32 and 64 bits, which have more,
 * subtract the mean first. */
#ifdef EXEC_CUDA
template <class T> constexpr bool is_affine = sizeof(T) == 2;
#else
template <class T> constexpr bool is_affine = false;
#endif

/* The same for W columns from c on. Forward and backward pass must agree on
 * which values the clamp clipped, so both compute u here. */
template <class T, int W> struct norm_cols {
    typedef vec<acc<T>, W> V;
    V mean, rstd, gamma, beta, scale, shift;
    acc<T> cap;

    FN norm_cols() /* none: of no use */
        : mean(V::of(0)), rstd(mean), gamma(mean), beta(mean), scale(mean),
          shift(mean), cap(0)
    {
    }
    FN norm_cols(const norm_of<T> &n, int64_t c)
        : mean(V::load(n.mean + c)), rstd(V::load(n.rstd + c)),
          gamma(V::load(n.gamma + c)), beta(V::load(n.beta + c)),
          scale(rstd * gamma), shift(beta - mean * scale), cap(n.cap)
    {
    }
    FN V hat(V x) const
    {
        return (x - mean) * rstd;
    }
    /* Before the clamp. */
    FN V z(V x) const
    {
        return is_affine<T> ? x * scale + shift : hat(x) * gamma + beta;
    }
    FN V u(V x) const
    {
        return cap > 0 ? vmin(vmax(z(x), V::of(0)), V::of(cap)) : z(x);
    }
    /* dy where the clamp did not clip x. */
    FN V gate(V dy, V x) const
    {
        return cap > 0 ? vgate(dy, z(x), cap) : dy;
    }
};

/* dz of W columns from c on, from d and z; sums are dgamma, then dbeta. */
template <class T, int W> struct dz_cols {
    typedef vec<acc<T>, W> V;
    V mean, rstd, k, with, off; /* k (d - hat with - off) */
    V by_z, rest;               /* k d + by_z z + rest */

    FN dz_cols(const norm_of<T> &n, const acc<T> *sums, acc<T> inv, int64_t C,
               int64_t c)
        : mean(V::load(n.mean + c)), rstd(V::load(n.rstd + c)),
          k(V::load(n.gamma + c) * rstd), with(V::load(sums + c) * inv),
          off(V::load(sums + C + c) * inv), by_z(V::of(0) - k * with * rstd),
          rest(V::of(0) - by_z * mean - k * off)
    {
    }
    FN V dz(V d, V z) const
    {
        return is_affine<T> ? k * d + (by_z * z + rest)
                            : k * (d - (z - mean) * rstd * with - off);
    }
};

/* On the host, values that live only within an op, a row or a chunk that the
 * next loop or the matrix product reads, keep the accumulator's type: it rounds
 * less, and saves two conversions of a 16-bit type. On a GPU it is T, the input
 * type of the tensor cores. */
#ifdef EXEC_CUDA
template <class T> using work = T;
#else
template <class T> using work = acc<T>;
#endif
/* T differs from work<T>: values in memory have to be converted. */
template <class T> constexpr bool converts = sizeof(work<T>) != sizeof(T);

#ifndef EXEC_CUDA
/* Prefetches the same columns a few kilobytes ahead: the host's hardware
 * prefetcher does not reach that far. */
template <class T> FN void fetch_ahead(const T *x, int64_t r, int64_t C)
{
    const int64_t bytes = 8192, rows = bytes / (C * (int64_t)sizeof(T));
    __builtin_prefetch(x + (r + (rows < 16 ? 16 : rows)) * C);
}
#endif

/* The values of two arrays in a row. */
template <class T, int W> struct held2 {
    typename vec<acc<T>, W>::template raw<T> a, b;
};

/* u = norm(x) + skip, [rows, C]; skip may be NULL. u's rows lie ld apart. */
template <class T, int W, class U>
FN void norm_rows_to(blk b, U *u, int64_t ld, const T *x, const T *skip,
                     const norm_of<T> &n, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    tiles<W>(b, rows, C, [&](int64_t c, range of) {
#ifdef EXEC_CUDA
        auto each = [&](auto f) {
            auto one = [&](int64_t r) { return V::hold(x + r * C + c); };
            auto two = [&](int64_t r) {
                return held2<T, W>{one(r), V::hold(skip + r * C + c)};
            };
            if (skip)
                in_batches<2>(of, two, [&](int64_t r, const held2<T, W> &m) {
                    (f(V::open(m.a)) + V::open(m.b)).store(u + r * ld + c);
                });
            else
                in_batches<4>(of, one, [&](int64_t r, decltype(one(r)) m) {
                    f(V::open(m)).store(u + r * ld + c);
                });
        };
        if (!n.mean)
            return each([](V v) { return v; });
        const norm_cols<T, W> p(n, c);
        each([&](V v) { return p.u(v); });
#else
        if (!n.mean) {
            for (int64_t r : of) {
                V v = V::load(x + r * C + c);
                if (skip)
                    v += V::load(skip + r * C + c);
                v.store(u + r * ld + c);
            }
            return;
        }
        const norm_cols<T, W> p(n, c);
        for (int64_t r : of) {
            V v = p.u(V::load(x + r * C + c));
            fetch_ahead(x + c, r, C);
            if (skip)
                v += V::load(skip + r * C + c);
            v.store(u + r * ld + c);
        }
#endif
    });
}

template <class T, int W>
KERNEL_OF_TWO norm_rows(blk b, T *u, const T *x, const T *skip, norm_of<T> n,
                        int64_t rows, int64_t C)
{
    norm_rows_to<T, W>(b, u, C, x, skip, n, rows, C);
}

/* dz from d, [rows, C]; sums are dgamma, then dbeta. */
template <class T, int W>
KERNEL_OF_TWO norm_dz(blk b, work<T> *dz, const T *d, const T *z, norm_of<T> n,
                      const acc<T> *sums, acc<T> inv, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    tiles<W>(b, rows, C, [&](int64_t c, range of) {
        const dz_cols<T, W> p(n, sums, inv, C, c);
#ifdef EXEC_CUDA
        auto load = [&](int64_t r) {
            return held2<T, W>{V::hold(z + r * C + c), V::hold(d + r * C + c)};
        };
        in_batches<4>(of, load, [&](int64_t r, const held2<T, W> &m) {
            p.dz(V::open(m.b), V::open(m.a)).store(dz + r * C + c);
        });
#else
        for (int64_t r : of) {
            const V here = V::load(z + r * C + c);
            fetch_ahead(z + c, r, C);
            fetch_ahead(d + c, r, C);
            p.dz(V::load(d + r * C + c), here).store(dz + r * C + c);
        }
#endif
    });
}

/* dy := d, gated, after adding extra (it may be NULL); and the sums of d * hat
 * and of d, added to part, or with at_one_go stored to it. */
template <class T, int W>
KERNEL_OF_TWO norm_gate(blk b, double *part, T *dy, const T *extra, const T *x,
                        norm_of<T> n, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(b, part, rows, C, SUM_ROWS, at_one_go, [=](int64_t c) {
        const norm_cols<T, W> p(n, c);
        return by_row<4>(
            [=](int64_t r) {
                return held2<T, W>{V::hold(x + r * C + c),
                                   V::hold((const T *)dy + r * C + c)};
            },
            [=](V *s, int64_t r, const held2<T, W> &m) {
                V x1 = V::open(m.a), d = V::open(m.b);
                if (extra)
                    d += V::load(extra + r * C + c);
                d = p.gate(d, x1);
                d.store(dy + r * C + c);
                s[0] += d * p.hat(x1);
                s[1] += d;
            });
    });
}

/* Sums about the origin and of their squares, added to part, or with at_one_go
 * stored to it. */
template <class T, int W>
KERNEL_OF_TWO norm_sums(blk b, double *part, const T *z, const acc<T> *origin,
                        int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(b, part, rows, C, SUM_ROWS, at_one_go, [=](int64_t c) {
        const V o = V::load(origin + c);
        return by_row<8>(
            [=](int64_t r) { return V::hold(z + r * C + c); },
            [=](V *s, int64_t, const typename V::template raw<T> &m) {
                V d = V::open(m) - o;
                s[0] += d;
                s[1] += d * d;
            });
    });
}

/* ---- statistics ----------------------------------------------------------
 * The variance is a sum of squares about an origin near the mean, not about
 * zero, so that a column of 1000 +- 1 keeps its digits. The origin is the
 * mean of up to 16 rows spread over the batch: a power of two of them, which
 * keeps sums of small integers exact, and more than one, so that a single
 * outlier cannot be the origin. A GPU's own kernels give each block an origin
 * from its own rows instead, which needs no kernel before them (exec_merge.h).
 */
inline int64_t origin_rows(int64_t rows)
{
    int64_t n = 16;
    while (n > rows)
        n /= 2;
    return n;
}

/* The mean of n rows of z [., C] that lie `apart`. */
template <class T, class Z>
KERNEL norm_origin(blk b, acc<T> *origin, const Z *z, int64_t n, int64_t apart,
                   int64_t C)
{
    for (int64_t c : b.each(C)) {
        acc<T> s = 0;
        for (int64_t k = 0; k < n; k++)
            s += (acc<T>)z[k * apart * C + c];
        origin[c] = s / (acc<T>)n;
    }
}

template <class T> struct stats_of {
    acc<T> *mean, *rstd, *run_mean, *run_var;
    double eps, momentum;
    stats_of(const struct norm_stats *s)
        : mean((acc<T> *)s->mean), rstd((acc<T> *)s->rstd),
          run_mean((acc<T> *)s->run_mean), run_var((acc<T> *)s->run_var),
          eps(s->eps), momentum(s->momentum)
    {
    }
};

/* Of column c, whose rows have these sums about o. */
template <class T>
FN void put_stats(const stats_of<T> &out, int64_t c, acc<T> o, double sum,
                  double squares, double n)
{
    double s = sum / n, m = (double)o + s, var = squares / n - s * s;

    var = var < 0 ? 0 : var; /* rounding; a NaN stays */
    out.mean[c] = (acc<T>)m;
    out.rstd[c] = (acc<T>)(1 / sqrt(var + out.eps));
    out.run_mean[c] += (acc<T>)(out.momentum * (m - (double)out.run_mean[c]));
    out.run_var[c] +=
        (acc<T>)(out.momentum * (var * n / (n - 1) - (double)out.run_var[c]));
}

template <class T>
KERNEL norm_finish(blk b, stats_of<T> out, const acc<T> *origin,
                   const double *part, int64_t parts, int64_t rows, int64_t C)
{
    folds<2>(b, part, parts, 2 * C, C, C, [&](int64_t c, const double *of) {
        put_stats(out, c, origin[c], of[0], of[1], (double)rows);
    });
}

/* The sums of norm_gate, in A for the next kernel and in T as gradients. */
template <class T>
FN void fold_gate(blk b, acc<T> *sums, T *dgamma, T *dbeta, const double *part,
                  int64_t parts, int64_t C)
{
    folds<1>(b, part, parts, 2 * C, 2 * C, 0, [&](int64_t i, const double *s) {
        sums[i] = (acc<T>)s[0];
        (i < C ? dgamma + i : dbeta + (i - C))[0] = (T)s[0];
    });
}
template <class T>
KERNEL norm_fold(blk b, acc<T> *sums, T *dgamma, T *dbeta, const double *part,
                 int64_t parts, int64_t C)
{
    fold_gate(b, sums, dgamma, dbeta, part, parts, C);
}

template <class A> KERNEL clear(blk b, A *p, int64_t n)
{
    for (int64_t i : b.each(n))
        p[i] = 0;
}

} // namespace
#endif
