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

#include "kernels/exec/exec_norm.h"

namespace
{

/* Channels of a lane. Forward it keeps nine filter values, a norm, two sums and
 * two results of each, with three columns on the way from memory; backward nine
 * values, nine sums, two norms, two results and two inputs. Two blocks of a
 * multiprocessor, which hide each other's latency, have 128 registers a lane.
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

/* z, and its sums about the origin and of their squares; origin NULL: sums of
 * no use. CLAMPS: in has a cap. */
template <class T, int W, int STRIDE, bool CLAMPS>
KERNEL_OF_TWO fwd_walk(blk b, double *part, T *z, const T *x, norm_of<T> in,
                       const T *w, const acc<T> *origin, conv3 s)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(
        b, part, (int64_t)s.N * s.OH, s.C, lines_of(s.OW), true,
        [=](int64_t c) {
            const bool has_norm = CLAMPS || in.mean;
            const norm_cols<T, W> p =
                has_norm ? norm_cols<T, W>(in, c) : norm_cols<T, W>();
            const V o = origin ? V::load(origin + c) : V::of(0);
            V f[9];
            UNROLL for (int k = 0; k < 9; k++) f[k] = V::load(w + k * s.C + c);
            return by_row([=](V *sums, int64_t line, int) {
                const int n = (int)(line / s.OH);
                const int h = (int)(line - (int64_t)n * s.OH) * STRIDE;
                const int64_t C = s.C, across = s.W * C;
                const T *mid = x + ((int64_t)n * s.H + h) * across + c;
                const bool up = h > 0, down = h + 1 < s.H;
                const line_of<T, W, CLAMPS> rows[3] = {
                    {up ? mid - across : mid, up, in.cap},
                    {mid, true, in.cap},
                    {down ? mid + across : mid, down, in.cap}};
                T *to = z + line * s.OW * C + c;
                /* i: a column, times C. */
                auto load = [&](unsigned i) {
                    held3<T, W> m;
                    UNROLL for (int k = 0; k < 3; k++) m.m[k] =
                        V::hold(rows[k].at + i);
                    return m;
                };
                /* Sum what is stored, not what was computed. */
                auto store = [&](unsigned i, V v) {
                    const auto m = v.template round<T>();
                    V::put(to + i, m);
                    v = V::open(m) - o;
                    sums[0] += v;
                    sums[1] += v * v;
                };
                /* The sum that column kw of the window is of a result. */
                struct column {
                    V u[3];
                };
                auto open = [&](const held3<T, W> &m) {
                    column r;
                    UNROLL for (int k = 0; k < 3; k++) r.u[k] =
                        rows[k].u(p, has_norm, V::open(m.m[k]));
                    return r;
                };
                auto add = [&](V v, const column &m, int kw) {
                    UNROLL for (int k = 0; k < 3; k++) v +=
                        m.u[k] * f[k * 3 + kw];
                    return v;
                };
                const unsigned C1 = (unsigned)C;
                if (STRIDE == 1) {
                    const column first = open(load(0));
                    V one = add(V::of(0), first, 1); /* lacks its last column */
                    V two = add(V::of(0), first, 0); /* lacks two */
                    in_batches<2>({C, across, C}, load,
                                  [&](int64_t i, const held3<T, W> &m) {
                                      const column here = open(m);
                                      store((unsigned)i - C1,
                                            add(one, here, 2));
                                      one = add(two, here, 1);
                                      two = add(V::of(0), here, 0);
                                  });
                    store((unsigned)across - C1, one);
                } else {
                    struct pair {
                        held3<T, W> a, b;
                    };
                    V one = V::of(0); /* has its first column */
                    in_batches<2>(
                        {0, s.W / 2 * C, C},
                        [&](unsigned i) {
                            return pair{load(2 * i), load(2 * i + C1)};
                        },
                        [&](int64_t i, const pair &m) {
                            const column last = open(m.b);
                            store((unsigned)i,
                                  add(add(one, open(m.a), 1), last, 2));
                            one = add(V::of(0), last, 0);
                        });
                    if (s.W % 2)
                        store((unsigned)(s.OW - 1) * C1,
                              add(one, open(load((unsigned)across - C1)), 1));
                }
            });
        });
}

} // namespace
#endif
