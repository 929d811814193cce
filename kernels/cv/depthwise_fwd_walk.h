/* depthwise_fwd_walk.h - depthwise 3x3, stride 2, for a GPU, and the kernel of
 * both strides: see depthwise_walk.h. */
#ifndef MGPU_KERNELS_CV_DEPTHWISE_FWD_WALK_H
#define MGPU_KERNELS_CV_DEPTHWISE_FWD_WALK_H

#include "kernels/cv/depthwise_walk.h"

namespace
{

/* Two lines of z, stride 2, which share the middle one of the five lines of x
 * that they need; the second may be missing. */
template <class T, int W, bool CLAMPS>
FN void fwd_pair(T *z, const T *x, acc<T> cap, const fwd_cols<T, W, CLAMPS> &k,
                 vec<acc<T>, W> *sums, int64_t line, int64_t c, const conv3 &s)
{
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    const int pairs = (s.OH + 1) / 2, n = (int)(line / pairs);
    const int oh = (int)(line - (int64_t)n * pairs) * 2, h = oh * 2;
    const int64_t C = s.C, across = s.W * C, down = s.OW * C;
    const bool has_two = oh + 1 < s.OH;
    const T *at = x + ((int64_t)n * s.H + h) * across + c;
    T *to = keep(z + ((int64_t)n * s.OH + oh) * down + c);
    struct column {
        raw m[5];
    };
    /* A line beyond the edge is read from one that meets the same results. */
    const bool in[5] = {h > 0, true, h + 1 < s.H, true, h + 3 < s.H};
    const T *fourth = has_two ? at + 2 * across : at;
    const line_of<T, W, CLAMPS> rows[5] = {
        {in[0] ? at - across : at, in[0], cap},
        {at, in[1], cap},
        {in[2] ? at + across : at, in[2], cap},
        {fourth, in[3], cap},
        {in[4] ? at + 3 * across : fourth, in[4], cap}};
    const unsigned C1 = (unsigned)C;
    V one[2] = {V::of(0), V::of(0)}; /* has its first column */

    /* i: a column, times C. */
    auto load = [&](unsigned i) {
        column m;
        UNROLL for (int r = 0; r < 5; r++) m.m[r] = V::hold(rows[r].at + i);
        return m;
    };
    /* Adds column kw of the window, and if fresh is not NULL to it the first
     * column of the next one. */
    auto add = [&](V *v, const column &m, int kw, V *fresh) {
        UNROLL for (int r = 0; r < 5; r++)
        {
            const V u = rows[r].u(k.p, k.has_norm, V::open(m.m[r]));
            if (r < 3)
                v[0] += u * k.f[r * 3 + kw];
            if (r >= 2)
                v[1] += u * k.f[(r - 2) * 3 + kw];
            if (fresh && r < 3)
                fresh[0] += u * k.f[r * 3];
            if (fresh && r >= 2)
                fresh[1] += u * k.f[(r - 2) * 3];
        }
    };
    auto finish = [&](unsigned i, const V *v) {
        k.finish(sums, to + i, v[0]);
        if (has_two)
            k.finish(sums, to + (i + (unsigned)down), v[1]);
    };
    unsigned out = 0; /* a column of z, times C */
    const unsigned end = (unsigned)(s.W / 2 * 2) * C1;
    for (unsigned i = 0; i < end; i += 2 * C1) {
        const column ma = load(i), mb = load(i + C1);
        V v[2] = {one[0], one[1]};
        one[0] = one[1] = V::of(0);
        add(v, ma, 1, nullptr);
        add(v, mb, 2, one);
        finish(out, v);
        out += C1;
    }
    if (s.W % 2) {
        add(one, load((unsigned)across - C1), 1, nullptr);
        finish(out, one);
    }
}

/* A value of z from memory, not rounded. */
template <class T, int W, bool CLAMPS>
FN vec<acc<T>, W> value_at(const T *x, const fwd_cols<T, W, CLAMPS> &k,
                           int line, int ow, int64_t c, const conv3 &s)
{
    typedef vec<acc<T>, W> V;
    const int n = line / s.OH, h = (line - n * s.OH) * s.stride;
    const int w = ow * s.stride;
    V v = V::of(0);

    x += (((int64_t)n * s.H + h) * s.W + w) * s.C + c;
    UNROLL for (int i = 0; i < 9; i++)
    {
        const int down = i / 3 - 1, across = i % 3 - 1;
        const bool is_in = (unsigned)(h + down) < (unsigned)s.H &&
                           (unsigned)(w + across) < (unsigned)s.W;
        const int64_t off = is_in ? ((int64_t)down * s.W + across) * s.C : 0;
        const V m = V::load(x + off), u = k.has_norm ? k.p.u(m) : m;
        v += (is_in ? u : V::of(0)) * k.f[i];
    }
    return v;
}

/* A row of columns() per block. */
template <class U> struct once {
    U use;
    template <class V> FN void rows(V *sums, range of) const
    {
        if (of.lo < of.hi)
            use(sums);
    }
};
template <class U> FN once<U> by_block(U use)
{
    return {use};
}

/* The origins of the sums of a block that has n lines of z, from the first on:
 * the mean of two values of a column. They lie apart, so that neither an
 * outlier nor the edge of the image is the origin, and their mean keeps sums of
 * small integers exact. */
template <class T, int W, bool CLAMPS>
FN void find_origins(blk b, const own_sums<T> &own, const T *x,
                     const norm_of<T> &in, const T *w, int first, int n,
                     const conv3 &s)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.lanes(1))
        own.rows[b.id() + i] = (double)n * s.OW;
    columns<T, W, 1>(b, own.origin, b.count(), s.C, 1, true, [=](int64_t c) {
        const fwd_cols<T, W, CLAMPS> k(in, w, nullptr, s.C, c);
        return by_block([=](V *sums) {
            if (n == 0)
                return;
            const int far = s.OW - 1 - s.OW / 4;
            sums[0] +=
                value_at<T, W, CLAMPS>(x, k, first + n / 4, s.OW / 4, c, s);
            sums[0] +=
                value_at<T, W, CLAMPS>(x, k, first + n - 1 - n / 4, far, c, s);
            sums[0] = sums[0] * acc<T>(0.5);
        });
    });
    b.sync(); /* the origins are there */
}

/* z, and the sums of a block's pixels; own.origin NULL: sums of no use. CLAMPS:
 * in has a cap. */
template <class T, int W, int STRIDE, bool CLAMPS>
KERNEL_OF_TWO fwd_walk(blk b, own_sums<T> own, T *z, const T *x, norm_of<T> in,
                       const T *w, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const int64_t per_image = STRIDE == 1 ? s.OH : (s.OH + 1) / 2;
    const acc<T> *origin = own.origin ? own.origin + b.id() * s.C : nullptr;

    if (origin) {
        const range mine = b.share(s.N * per_image);
        auto line = [=](int64_t i) {
            const int image = (int)(i / per_image);
            return image * s.OH + (int)(i - image * per_image) * STRIDE;
        };
        const int first = line(mine.lo);
        find_origins<T, W, CLAMPS>(b, own, x, in, w, first,
                                   line(mine.hi) - first, s);
    }
    columns<T, W, 2>(
        b, own.part, s.N * per_image, s.C, lines_of(s.OW * STRIDE), true,
        [=](int64_t c) {
            const fwd_cols<T, W, CLAMPS> k(in, w, origin, s.C, c);
            return by_row([=](V *sums, int64_t line, int) {
                if (STRIDE == 1)
                    fwd_line<T, W, CLAMPS>(z, x, in.cap, k, sums, line, c, s);
                else
                    fwd_pair<T, W, CLAMPS>(z, x, in.cap, k, sums, line, c, s);
            });
        });
}

} // namespace
#endif
