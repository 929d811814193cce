/* attention_device.h - attention for a GPU: the launches of its kernels. */
#ifndef MGPU_KERNELS_LLM_ATTENTION_DEVICE_H
#define MGPU_KERNELS_LLM_ATTENTION_DEVICE_H

#include "kernels/llm/attention_back_lanes.h"

namespace
{

/* f(width<W>) with the widest vector that divides a head and the distances of
 * rows, and that all addresses are aligned for; or with width<1>. */
template <int N> struct width {
    static constexpr int W = N;
};
template <class T, class F>
void by_width(int64_t D, int64_t distances, uintptr_t addresses, F f)
{
    if (width_of<T>(D | distances, (char *)addresses) == widest<T>)
        f(width<widest<T>>());
    else
        f(width<1>());
}

template <class T>
int run_fwd(struct device *d, T *o, int64_t ldo, acc<T> *lse, const seen<T> &in,
            struct error *)
{
    const int64_t units = in.heads * tiles_of(in.rows, QUERIES);
    const uintptr_t addresses =
        bits_of(in.q) | bits_of(in.k) | bits_of(in.v) | bits_of(o);

    by_width<T>(in.D, in.ld | ldo, addresses, [&](auto w) {
        launch(d, blocks(d, units * QUERIES * in.D * 16, units),
               attend<T, decltype(w)::W>, o, ldo, lse, in);
    });
    return 0;
}

template <class T>
int run_bwd(struct device *d, const seen<T> &in, grads<T> g, const T *o,
            struct error *err)
{
    const int64_t by_query = in.heads * tiles_of(in.rows, QUERIES),
                  by_key = in.kv_heads * tiles_of(in.rows, OWN_KEYS),
                  work = in.rows * in.heads * in.D * 16;
    const uintptr_t addresses = bits_of(in.q) | bits_of(in.k) | bits_of(in.v) |
                                bits_of(g.dq) | bits_of(g.dk) | bits_of(g.dv) |
                                bits_of(g.dout) | bits_of(o);

    acc<T> *delta = scratch<acc<T>>(d, in.rows * in.heads, err);
    if (!delta)
        return -1;
    g.delta = delta;
    take_deltas(d, delta, g.dout, o, g.ldo, in);
    by_width<T>(in.D, in.ld | g.ldo | g.ldd, addresses, [&](auto w) {
        launch(d, blocks(d, work, by_query), attend_dq<T, decltype(w)::W>, in,
               g);
        launch(d, blocks(d, work, by_key), attend_dkv<T, decltype(w)::W>, in,
               g);
    });
    return 0;
}

} // namespace
#endif
