/* depthwise_pair_walk.h - the gradient of depthwise 3x3, stride 2, for a GPU,
 * and the kernel of both strides: see depthwise_back_walk.h. */
#ifndef MGPU_KERNELS_CV_DEPTHWISE_PAIR_WALK_H
#define MGPU_KERNELS_CV_DEPTHWISE_PAIR_WALK_H

#include "kernels/cv/depthwise_back_walk.h"

namespace
{

/* Two lines of dx, stride 2, an even one and the odd one below it. A column of
 * dz, two values of it, meets three columns of both: an even line one row of
 * the filter, kh = 1, an odd one two, kh = 2 and 0. */
template <class T, int W, bool CLAMPS>
FN void back_pair(const back_of<T> &a, const back_cols<T, W, CLAMPS> &k,
                  vec<acc<T>, W> *sums, int64_t line, int64_t c)
{
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;
    struct held {
        raw d[2], z[2];
        raw even[2], odd[2]; /* x of the even line, and of the odd one */
    };
    const conv3 &s = a.s;
    const int64_t C = s.C, across = s.W * C;
    const int n = (int)(line / s.OH), oh = (int)(line - (int64_t)n * s.OH);
    const bool has_odd = 2 * oh + 1 < s.H, has_next = oh + 1 < s.OH;
    const int64_t at = ((int64_t)n * s.H + 2 * oh) * across + c;
    const int64_t from = line * s.OW * C + c;
    const int64_t below = has_next ? (int64_t)s.OW * C : 0;
    const int64_t under = has_odd ? across : 0;
    const line_of<T, W, CLAMPS> even(a.x + at, true, a.in.cap);
    const line_of<T, W, CLAMPS> odd(a.x + at + under, has_odd, a.in.cap);
    V dx[2] = {V::of(0), V::of(0)}, u[2] = {V::of(0), V::of(0)};
    raw x[2] = {V::hold(even.at), V::hold(odd.at)};

    const unsigned C1 = (unsigned)C;
    const T *d[2] = {a.d + from, a.d + from + below};
    const T *z[2] = {a.z + from, a.z + from + below};
    T *to[2] = {a.dx + at, a.dx + at + under};

    /* i: a column of dz, times C; x of two. */
    auto columns2 = [&](unsigned i, unsigned right) {
        held m;
        UNROLL for (int r = 0; r < 2; r++)
        {
            m.d[r] = V::hold(d[r] + i);
            m.z[r] = V::hold(z[r] + i);
            m.even[r] = V::hold(even.at + (2 * i + r * right));
            m.odd[r] = V::hold(odd.at + (2 * i + r * right));
        }
        return m;
    };
    auto load = [&](unsigned i) { return columns2(i, C1); };
    auto finish = [&](unsigned i, V v_even, V v_odd, const raw &x_even,
                      const raw &x_odd) {
        k.finish(sums, to[0] + i, v_even, x_even);
        if (has_odd)
            k.finish(sums, to[1] + i, v_odd, x_odd);
    };
    auto step = [&](unsigned i, const held &m, bool is_first, bool has_right) {
        const V g = k.q.dz(V::open(m.d[0]), V::open(m.z[0]));
        V h = k.q.dz(V::open(m.d[1]), V::open(m.z[1]));
        h = has_next ? h : V::of(0);
        V u_even[3] = {u[0], even.u(k.p, k.has_norm, V::open(m.even[0])),
                       even.u(k.p, k.has_norm, V::open(m.even[1]))};
        V u_odd[3] = {u[1], odd.u(k.p, k.has_norm, V::open(m.odd[0])),
                      odd.u(k.p, k.has_norm, V::open(m.odd[1]))};
        if (!has_right)
            u_even[2] = u_odd[2] = V::of(0);
        UNROLL for (int kw = 0; kw < 3; kw++)
        {
            sums[2 + kw] += h * u_odd[kw];
            sums[2 + 3 + kw] += g * u_even[kw];
            sums[2 + 6 + kw] += g * u_odd[kw];
        }
        if (!is_first)
            finish(2 * i - C1, dx[0] + g * k.f[3],
                   dx[1] + g * k.f[6] + h * k.f[0], x[0], x[1]);
        finish(2 * i, g * k.f[4], g * k.f[7] + h * k.f[1], m.even[0], m.odd[0]);
        dx[0] = g * k.f[5];
        dx[1] = g * k.f[8] + h * k.f[2];
        u[0] = u_even[2];
        u[1] = u_odd[2];
        x[0] = m.even[1];
        x[1] = m.odd[1];
    };
    const bool has_right = s.W % 2 == 0;
    const unsigned last = (unsigned)(s.OW - 1) * C1;
    const unsigned last_right = has_right ? C1 : 0;
    step(0, columns2(0, s.OW > 1 ? C1 : last_right), true,
         s.OW > 1 || has_right);
    in_batches<back_ahead<T, 2>>(
        {C, last, C}, load,
        [&](int64_t i, const held &m) { step((unsigned)i, m, false, true); });
    if (s.OW > 1)
        step(last, columns2(last, last_right), false, has_right);
    if (has_right)
        finish((unsigned)(across - C), dx[0], dx[1], x[0], x[1]);
}

/* dx, gated; its sums, the first without its factor rstd; and the
 * filter's gradient: part is [blocks, 11, C]. */
template <class T, int W, int STRIDE, bool CLAMPS>
KERNEL_OF(sizeof(T) == 8 ? 1 : 2)
bwd_walk(blk b, double *part, back_of<T> a)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 11>(b, part, (int64_t)a.s.N * a.s.OH, a.s.C, lines_of(a.s.W),
                      true, [=](int64_t c) {
                          const back_cols<T, W, CLAMPS> k(a, c);
                          return by_row([=](V *sums, int64_t line, int) {
                              if (STRIDE == 1)
                                  back_line<T, W, CLAMPS>(a, k, sums, line, c);
                              else
                                  back_pair<T, W, CLAMPS>(a, k, sums, line, c);
                          });
                      });
}

/* The sums of bwd_walk's parts. */
template <class T>
KERNEL fold_walk(blk b, acc<T> *sums, T *dgamma, T *dbeta, T *dw,
                 const acc<T> *rstd, const double *part, int64_t parts,
                 int64_t C)
{
    folds<1>(b, part, parts, 11 * C, 11 * C, 0,
             [&](int64_t i, const double *of) {
                 if (i >= 2 * C) {
                     dw[i - 2 * C] = (T)of[0];
                 } else if (rstd) {
                     const double v = i < C ? of[0] * rstd[i] : of[0];
                     sums[i] = (acc<T>)v;
                     (i < C ? dgamma + i : dbeta + (i - C))[0] = (T)v;
                 }
             });
}

} // namespace
#endif
