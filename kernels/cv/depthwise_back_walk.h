/* depthwise_back_walk.h - the gradient of depthwise 3x3, stride 1, for a GPU:
 * depthwise_walk.h backwards.
 *
 * dz is made in the window, from d and z, and dx, its gate, the sums of the
 * norm before it and the filter's gradient are made from the same registers. */
#ifndef MGPU_KERNELS_CV_DEPTHWISE_BACK_WALK_H
#define MGPU_KERNELS_CV_DEPTHWISE_BACK_WALK_H

#include "kernels/cv/depthwise_walk.h"

namespace
{

template <class T> struct back_of {
    T *dx;
    const T *d, *z, *x, *w;
    norm_of<T> out, in; /* of z, and of x */
    const acc<T> *sums; /* of d */
    acc<T> inv;
    conv3 s;
};
template <class T> inline uintptr_t bits_of(const back_of<T> &a)
{
    return bits_of(a.dx) | bits_of(a.d) | bits_of(a.z) | bits_of(a.x) |
           bits_of(a.w) | bits_of(a.out) | bits_of(a.in) | bits_of(a.sums);
}

/* What a lane holds of its channels. */
template <class T, int W, bool CLAMPS> struct back_cols {
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    const bool has_norm;
    const norm_cols<T, W> p;
    const dz_cols<T, W> q;
    V f[9];

    FN back_cols(const back_of<T> &a, int64_t c)
        : has_norm(CLAMPS || a.in.mean),
          p(has_norm ? norm_cols<T, W>(a.in, c) : norm_cols<T, W>()),
          q(a.out, a.sums, a.inv, a.s.C, c)
    {
        UNROLL for (int k = 0; k < 9; k++) f[k] = V::load(a.w + k * a.s.C + c);
    }
    /* dx of one pixel is complete: gate, store and sum it. sums[0] lacks the
     * factor rstd. */
    FN void finish(V *sums, T *to, V v, const raw &x) const
    {
        const V here = V::open(x);
        if (CLAMPS)
            v = vgate(v, p.z(here), p.cap);
        const raw m = v.template round<T>();
        V::put(to, m);
        v = V::open(m); /* sum what is stored, not what was computed */
        sums[0] += v * (here - p.mean);
        sums[1] += v;
    }
};

/* One line of dx, stride 1, and its share of the filter's gradient, sums[2..]:
 * a column of dz meets the results, and the inputs, on its left, on its right
 * and in the middle. */
template <class T, int W, bool CLAMPS>
FN void back_line(const back_of<T> &a, const back_cols<T, W, CLAMPS> &k,
                  vec<acc<T>, W> *sums, int64_t line, int64_t c)
{
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    struct held {
        held3<T, W> d, z;
        raw x; /* of the next column */
    };
    const conv3 &s = a.s;
    const int64_t C = s.C, across = s.W * C;
    const int h = (int)(line % s.H);
    const int64_t at = line * across + c;
    const bool is_in[3] = {h > 0, true, h + 1 < s.H};
    /* The lines above, here and below, from the first on. */
    const int64_t from = is_in[0] ? at - across : at;
    const unsigned here_at = (unsigned)(at - from);
    const unsigned line_at[3] = {
        0, here_at, is_in[2] ? here_at + (unsigned)across : here_at};
    const T *d = a.d + from, *z = a.z + from;
    const unsigned C1 = (unsigned)C, last = (unsigned)(across - C);
    const line_of<T, W, CLAMPS> mid(a.x + at, true, a.in.cap);
    T *to = a.dx + at;
    V one = V::of(0), two = V::of(0); /* dx: lacks a column, and two */
    V before = V::of(0);              /* u on the left, and in the middle */
    raw x = V::hold(mid.at), x_before = x;
    V here = mid.u(k.p, k.has_norm, V::open(x));

    /* i: a column, times C; the last one has no next. */
    auto column = [&](unsigned i, unsigned next) {
        held m;
        UNROLL for (int r = 0; r < 3; r++)
        {
            m.d.m[r] = V::hold(d + (line_at[r] + i));
            m.z.m[r] = V::hold(z + (line_at[r] + i));
        }
        m.x = V::hold(mid.at + next);
        return m;
    };
    auto load = [&](unsigned i) { return column(i, i + C1); };
    auto step = [&](unsigned i, const held &m, bool is_first, bool is_last) {
        const V next =
            is_last ? V::of(0) : mid.u(k.p, k.has_norm, V::open(m.x));
        V done = one, more = two, begun = V::of(0);
        UNROLL for (int r = 0; r < 3; r++)
        {
            const int kh = 2 - r;
            V g = k.q.dz(V::open(m.d.m[r]), V::open(m.z.m[r]));
            if (r != 1)
                g = is_in[r] ? g : V::of(0);
            done += g * k.f[kh * 3];
            more += g * k.f[kh * 3 + 1];
            begun += g * k.f[kh * 3 + 2];
            sums[2 + kh * 3] += g * before;
            sums[2 + kh * 3 + 1] += g * here;
            sums[2 + kh * 3 + 2] += g * next;
        }
        if (!is_first)
            k.finish(sums, to + (i - C1), done, x_before);
        one = more;
        two = begun;
        before = here;
        here = next;
        x_before = x;
        x = m.x;
    };
    step(0, column(0, s.W > 1 ? C1 : 0), true, s.W == 1);
    in_batches<back_ahead<T, 1>>(
        {C, across - C, C}, load,
        [&](int64_t i, const held &m) { step((unsigned)i, m, false, false); });
    if (s.W > 1)
        step(last, column(last, last), false, true);
    k.finish(sums, to + last, one, x_before);
}

} // namespace
#endif
