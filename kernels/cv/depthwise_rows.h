/* depthwise_rows.h - depthwise 3x3 fused with the norms around it, for the
 * host: one pass over the image rows.
 *
 * A thread computes consecutive output rows, a part or more, and keeps the
 * three input rows that they need, normalised once per part, in its L2 cache.
 * Outside the image it reads a row of zeros, so that only columns have edge
 * cases. The backward pass keeps three rows of dz and three of u, and from them
 * makes a row of dx (gated, with its sums) and that row's share of the filter's
 * gradient: dx, dw, dgamma and dbeta, for one walk through d, z and x.
 *
 * It computes what the portable kernels of depthwise.cu compute, in another
 * order; the contract test compares this one with a reference on the host, and
 * the portable ones in the emulator. */
#ifndef MGPU_KERNELS_CV_DEPTHWISE_ROWS_H
#define MGPU_KERNELS_CV_DEPTHWISE_ROWS_H

#include "kernels/exec/exec_norm.h"

namespace
{

/* Up to three rows of an image, computed at the first access. */
template <class A> struct lines {
    A *room;       /* [3, len] */
    const A *zero; /* [len] */
    int64_t len, has[3];
    FN lines(A *r, const A *z, int64_t n) : room(r), zero(z), len(n)
    {
        has[0] = has[1] = has[2] = -1;
    }
    /* Row i of n_rows of image n; make(to, row of all images). */
    template <class F>
    FN const A *get(int64_t n, int64_t i, int64_t n_rows, F make)
    {
        if (i < 0 || i >= n_rows)
            return zero;
        int64_t id = n * n_rows + i;
        A *to = room + i % 3 * len;
        if (has[i % 3] != id) {
            make(to, id);
            has[i % 3] = id;
        }
        return to;
    }
};

/* sum over the 3x3 window of three lines, at column w0 = its left one. */
template <class A, int W>
FN vec<A, W> taps(const A *const *row, const vec<A, W> *f, int64_t w0,
                  int64_t width, int64_t C, int64_t c)
{
    typedef vec<A, W> V;
    V sum = V::of(0);

    if (w0 >= 0 && w0 + 2 < width) {
        UNROLL for (int kh = 0; kh < 3; kh++)
        {
            const A *p = row[kh] + w0 * C + c;
            UNROLL for (int kw = 0; kw < 3; kw++) sum +=
                V::load(p + kw * C) * f[kh * 3 + kw];
        }
        return sum;
    }
    for (int kh = 0; kh < 3; kh++)
        for (int kw = 0; kw < 3; kw++)
            if (w0 + kw >= 0 && w0 + kw < width)
                sum += V::load(row[kh] + (w0 + kw) * C + c) * f[kh * 3 + kw];
    return sum;
}

template <class T, int W> FN void add_to(double *part, vec<acc<T>, W> v)
{
    UNROLL for (int k = 0; k < W; k++) part[k] += (double)v.v[k];
}

/* Number of A values that a thread needs in addition to its parts. */
inline int64_t dw_room(const conv3 *s)
{
    return 4 * (int64_t)s->W * s->C + 3 * (int64_t)s->OW * s->C;
}

/* The row of zeros before each thread's scratch. */
template <class A>
KERNEL clear_zeros(blk b, A *room, int64_t rooms, int64_t each, int64_t n)
{
    for (int64_t i : b.each(rooms))
        memset((void *)(room + i * each), 0, (size_t)n * sizeof(A));
}

/* Prefetches column ow of the next row of x, or with stride 2 both columns of
 * both rows: memory latency is too long to load a row when it is used.
 * Prefetches past the end of x have no effect. */
template <class T> FN void fetch_x(const T *row, int64_t ow, const conv3 &s)
{
    const int64_t C = s.C, len = s.W * C;

    for (int64_t i = 0; i < s.stride; i++)
        for (int64_t k = 0; k < s.stride; k++)
            __builtin_prefetch(row + i * len + (ow * s.stride + k) * C);
}

/* part NULL: no statistics. room [threads, dw_room], its zeros cleared. */
template <class T, int W>
KERNEL dw_rows_fwd(blk b, T *z, const T *x, norm_of<T> in, const T *w, conv3 s,
                   acc<T> *room, double *part, const acc<T> *origin)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    const int64_t C = s.C, len = s.W * C, olen = s.OW * C;
    const bool plain = !in.mean && !converts<T>;
    A *mine = room + host_thread() * dw_room(&s);
    lines<A> u(mine + len, mine, len);
    auto make = [&](A *to, int64_t row) {
        norm_rows_to<T, W>(blk{0, 1}, to, C, x + row * len, (const T *)nullptr,
                           in, s.W, C);
    };

    part = part ? part + b.id() * 2 * C : part;
    for (int64_t r : b.share((int64_t)s.N * s.OH)) {
        int64_t n = r / s.OH, h0 = r % s.OH * s.stride - 1;
        const A *row[3];
        for (int kh = 0; kh < 3; kh++)
            row[kh] =
                !plain || h0 + kh < 0 || h0 + kh >= s.H
                    ? u.get(n, h0 + kh, s.H, make)
                    : (const A *)(const void *)(x + (n * s.H + h0 + kh) * len);
        for (int64_t c = 0; c < C; c += W) {
            V f[9], o = part ? V::load(origin + c) : V::of(0);
            V sum = V::of(0), square = V::of(0);
            T *to = z + r * s.OW * C + c;
            UNROLL for (int k = 0; k < 9; k++) f[k] = V::load(w + k * C + c);
            /* Prefetch with the next row of z the matching part of x. */
            const T *next = x + (n * s.H + h0 + 3) * len + c;
            for (int64_t ow = 0; ow < s.OW; ow++) {
                V v = taps<A, W>(row, f, ow * s.stride - 1, s.W, C, c);
                v.store(to + ow * C);
                __builtin_prefetch(to + olen + ow * C, 1);
                fetch_x(next, ow, s);
                if (converts<T>) /* the statistics cover the stored values */
                    v = V::load(to + ow * C);
                v = v - o;
                sum += v;
                square += v * v;
            }
            if (part) {
                add_to<T, W>(part + c, sum);
                add_to<T, W>(part + C + c, square);
            }
        }
    }
}

template <class T> struct dw_back {
    T *dx;
    const T *dn, *z, *x, *w;
    norm_of<T> norm, in;
    const acc<T> *sums;
    acc<T> inv;
    conv3 s;
};

/* One row of dx from the values that taps() or a similar function returns per
 * column. */
template <class T, int W, class F>
FN void dw_row_dx(const dw_back<T> &a, double *part, int64_t row, int64_t c,
                  F grad)
{
    typedef vec<acc<T>, W> V;
    const int64_t C = a.s.C, at = row * a.s.W * C + c;
    V with = V::of(0), alone = V::of(0);

    if (!a.in.mean) {
        for (int64_t iw = 0; iw < a.s.W; iw++)
            grad(iw).store(a.dx + at + iw * C);
        return;
    }
    norm_cols<T, W> p(a.in, c);
    for (int64_t iw = 0; iw < a.s.W; iw++) {
        V here = V::load(a.x + at + iw * C);
        V d = p.gate(grad(iw), here);
        d.store(a.dx + at + iw * C);
        with += d * p.hat(here);
        alone += d;
    }
    add_to<T, W>(part + c, with);
    add_to<T, W>(part + C + c, alone);
}

/* Rows 2 oh and 2 oh + 1 of dx, stride 2: an even row meets one row of the
 * filter, kh = 1, an odd one two, kh = 2 and 0; columns alike. `two` are the
 * rows oh and oh + 1 of dz. */
template <class T, int W>
FN void dw_rows_dx2(const dw_back<T> &a, double *part, int64_t n, int64_t oh,
                    int64_t c, const acc<T> *const *two,
                    const vec<acc<T>, W> *f)
{
    typedef vec<acc<T>, W> V;
    const int64_t C = a.s.C;

    for (int odd = 0; odd < 2 && 2 * oh + odd < a.s.H; odd++)
        dw_row_dx<T, W>(a, part, n * a.s.H + 2 * oh + odd, c, [&](int64_t iw) {
            const int64_t at = iw / 2 * C + c;
            const V *g = odd ? f + 6 : f + 3;
            const bool next = iw / 2 + 1 < a.s.OW;
            if ((iw & 1) == 0)
                return V::load(two[0] + at) * g[1] +
                       (odd ? V::load(two[1] + at) * f[1] : V::of(0));
            V v = V::load(two[0] + at) * g[2];
            if (next)
                v += V::load(two[0] + at + C) * g[0];
            if (odd) {
                v += V::load(two[1] + at) * f[2];
                if (next)
                    v += V::load(two[1] + at + C) * f[0];
            }
            return v;
        });
}

/* Adds the contribution of one row of dz to the filter's gradient. */
template <class A, int W, class F>
FN void dw_row_dw(A *dw, const A *dz, const A *const *row, const conv3 &s,
                  int64_t c, F fetch)
{
    typedef vec<A, W> V;
    const int64_t C = s.C;
    V sum[9];

    UNROLL for (int k = 0; k < 9; k++) sum[k] = V::load(dw + k * C + c);
    for (int64_t ow = 0; ow < s.OW; ow++) {
        const int64_t w0 = ow * s.stride - 1;
        V g = V::load(dz + ow * C + c);
        fetch(ow);
        if (w0 >= 0 && w0 + 2 < s.W) {
            UNROLL for (int kh = 0; kh < 3; kh++)
            {
                const A *p = row[kh] + w0 * C + c;
                UNROLL for (int kw = 0; kw < 3; kw++) sum[kh * 3 + kw] +=
                    g * V::load(p + kw * C);
            }
            continue;
        }
        UNROLL for (int kh = 0; kh < 3; kh++)
            UNROLL for (int kw = 0; kw < 3;
                        kw++) if (w0 + kw >= 0 && w0 + kw < s.W)
                sum[kh * 3 + kw] += g * V::load(row[kh] + (w0 + kw) * C + c);
    }
    UNROLL for (int k = 0; k < 9; k++) sum[k].store(dw + k * C + c);
}

/* part [blocks, 11, C]: sums of d * hat and of d, then the filter's gradient.
 * dws [threads, 9, C], zeroed: the filter's gradient of a few rows. */
template <class T, int W>
KERNEL dw_rows_bwd(blk b, dw_back<T> a, acc<T> *room, acc<T> *dws, double *part)
{
    typedef acc<T> A;
    typedef vec<A, W> V;
    enum { FLUSH_ROWS = 16 };
    const conv3 &s = a.s;
    const int64_t C = s.C, len = s.W * C, olen = s.OW * C;
    A *mine = room + host_thread() * dw_room(&s);
    lines<A> us(mine + len, mine, len), dzs(mine + 4 * len, mine, olen);
    auto make_u = [&](A *to, int64_t row) {
        norm_rows_to<T, W>(blk{0, 1}, to, C, a.x + row * len,
                           (const T *)nullptr, a.in, s.W, C);
    };
    auto make_dz = [&](A *to, int64_t row) {
        norm_dz<T, W>(blk{0, 1}, to, a.dn + row * olen, a.z + row * olen,
                      a.norm, a.sums, a.inv, s.OW, C);
    };
    int64_t kept = 0;

    dws += host_thread() * 9 * C;
    part += b.id() * 11 * C;
    auto flush = [&]() {
        for (int64_t i = 0; i < 9 * C; i++) {
            part[2 * C + i] += (double)dws[i];
            dws[i] = 0;
        }
        kept = 0;
    };
    for (int64_t r : b.share((int64_t)s.N * s.OH)) {
        int64_t n = r / s.OH, oh = r % s.OH, h0 = oh * s.stride - 1;
        const A *dz[3], *u[3];
        for (int k = 0; k < 3; k++) {
            u[k] = us.get(n, h0 + k, s.H, make_u);
            dz[k] = dzs.get(n, oh - 1 + k, s.OH, make_dz);
        }
        for (int64_t c = 0; c < C; c += W) {
            V f[9];
            UNROLL for (int k = 0; k < 9; k++) f[k] =
                V::load(a.w + (s.stride == 1 ? 8 - k : k) * C + c);
            if (s.stride == 1)
                dw_row_dx<T, W>(a, part, r, c, [&](int64_t iw) {
                    return taps<A, W>(dz, f, iw - 1, s.W, C, c);
                });
            else
                dw_rows_dx2<T, W>(a, part, n, oh, c, dz + 1, f);
            const int64_t d_at = (r + 2) * olen + c;
            const T *next = a.x + (n * s.H + h0 + 3) * len + c;
            const T *to = a.dx + (r + 1) * s.stride * len + c;
            dw_row_dw<A, W>(dws, dz[1], u, s, c, [&](int64_t ow) {
                __builtin_prefetch(a.dn + d_at + ow * C);
                __builtin_prefetch(a.z + d_at + ow * C);
                fetch_x(next, ow, s);
                __builtin_prefetch(to + ow * s.stride * C, 1);
            });
        }
        if (++kept == FLUSH_ROWS)
            flush();
    }
    flush();
}

} // namespace
#endif
