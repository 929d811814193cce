/* depthwise_walk.h - depthwise 3x3 fused with the norms around it, for a GPU.
 *
 * Nine multiplications per value are few, so what is done beside them decides
 * how fast a kernel is: some 40 instructions per value take as long as its
 * memory does (kernels/README.md). A lane therefore walks along a line of the
 * image with all that it needs in registers. Each column of the window is
 * loaded, widened and normalised once, and added to the three results that it
 * is part of; no tap asks whether it lies inside the image. For a line beyond
 * the edge the lane reads its own line instead, and clamps it to zero: so a NaN
 * reaches no result that it would not reach anyway.
 *
 * columns() treats a line as a row and sums values that were just computed. */
#ifndef MGPU_KERNELS_CV_DEPTHWISE_WALK_H
#define MGPU_KERNELS_CV_DEPTHWISE_WALK_H

#include "kernels/exec/exec_merge.h"

namespace
{

/* Channels of a lane. Forward it keeps nine filter values, a norm, two sums, an
 * origin and two results of each, with two columns on the way from memory;
 * backward nine values, nine sums, two norms, two results and two inputs. Two
 * blocks of a multiprocessor, which hide each other's latency, have 128
 * registers a lane.
 */
template <class T, bool CLAMPS>
constexpr int fwd_width = (CLAMPS || sizeof(T) > 2 ? 8 : 4) / (int)sizeof(T);
template <class T> constexpr int bwd_width = sizeof(T) == 8 ? 1 : 2;

/* Columns that it loads at once, backward. */
template <class T, int STRIDE>
constexpr int back_ahead = sizeof(T) == 2 && STRIDE == 1 ? 2 : 1;

/* Lines that a lane sums in registers: some 64 pixels, as SUM_ROWS. */
FN int64_t lines_of(int width)
{
    return width < SUM_ROWS ? SUM_ROWS / width : 1;
}

/* u of a line: norm(x), clamped if CLAMPS, and 0 beyond the edge; without a
 * norm x. */
template <class T, int W, bool CLAMPS> struct line_of {
    typedef vec<acc<T>, W> V;
    const T *at;
    bool inside;
    acc<T> cap;

    FN line_of(const T *x, bool in, acc<T> c)
        : at(x), inside(in), cap(in ? c : acc<T>(0))
    {
    }
    FN V u(const norm_cols<T, W> &p, bool has_norm, V x) const
    {
        if (CLAMPS)
            return vmin(vmax(p.z(x), V::of(0)), V::of(cap));
        const V z = has_norm ? p.z(x) : x;
        return inside ? z : V::of(0);
    }
};

/* Three neighbouring pixels above each other. */
template <class T, int W> struct held3 {
    typename vec<acc<T>, W>::template raw<T> m[3];
};

/* What a lane holds of its channels. */
template <class T, int W, bool CLAMPS> struct fwd_cols {
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    const bool has_norm;
    const norm_cols<T, W> p;
    const V o; /* the origin */
    V f[9];

    FN fwd_cols(const norm_of<T> &in, const T *w, const acc<T> *origin,
                int64_t C, int64_t c)
        : has_norm(CLAMPS || in.mean),
          p(has_norm ? norm_cols<T, W>(in, c) : norm_cols<T, W>()),
          o(origin ? V::load(origin + c) : V::of(0))
    {
        UNROLL for (int k = 0; k < 9; k++)
        {
            f[k] = V::load(w + k * C + c);
            UNROLL for (int j = 0; j < W; j++) f[k].v[j] = keep(f[k].v[j]);
        }
    }
    /* Stores one pixel of z, and sums what is stored, not what was computed. */
    FN void finish(V *sums, T *to, V v) const
    {
        const raw m = v.template round<T>();
        V::put(to, m);
        v = V::open(m) - o;
        sums[0] += v;
        sums[1] += v * v;
    }
};

/* One line of z, stride 1: a column of the window meets the results on its
 * left, in the middle and on its right. */
template <class T, int W, bool CLAMPS>
FN void fwd_line(T *z, const T *x, acc<T> cap, const fwd_cols<T, W, CLAMPS> &k,
                 vec<acc<T>, W> *sums, int64_t line, int64_t c, const conv3 &s)
{
    typedef vec<acc<T>, W> V;
    const int64_t C = s.C, across = s.W * C, at = line * across + c;
    const int h = (int)(line % s.H);
    const bool up = h > 0, down = h + 1 < s.H;
    const line_of<T, W, CLAMPS> rows[3] = {
        {x + (up ? at - across : at), up, cap},
        {x + at, true, cap},
        {x + (down ? at + across : at), down, cap}};
    T *to = keep(z + at);
    struct column {
        V u[3];
    };

    /* i: a column, times C. */
    auto load = [&](unsigned i) {
        held3<T, W> m;
        UNROLL for (int r = 0; r < 3; r++) m.m[r] = V::hold(rows[r].at + i);
        return m;
    };
    auto open = [&](const held3<T, W> &m) {
        column u;
        UNROLL for (int r = 0; r < 3; r++) u.u[r] =
            rows[r].u(k.p, k.has_norm, V::open(m.m[r]));
        return u;
    };
    /* The sum that column kw of the window is of a result. */
    auto add = [&](V v, const column &u, int kw) {
        UNROLL for (int r = 0; r < 3; r++) v += u.u[r] * k.f[r * 3 + kw];
        return v;
    };
    const unsigned C1 = (unsigned)C;
    const column first = open(load(0));
    V one = add(V::of(0), first, 1); /* lacks its last column */
    V two = add(V::of(0), first, 0); /* lacks two */
    in_batches<2>({C, across, C}, load, [&](int64_t i, const held3<T, W> &m) {
        const column here = open(m);
        k.finish(sums, to + ((unsigned)i - C1), add(one, here, 2));
        one = add(two, here, 1);
        two = add(V::of(0), here, 0);
    });
    k.finish(sums, to + ((unsigned)across - C1), one);
}

} // namespace
#endif
