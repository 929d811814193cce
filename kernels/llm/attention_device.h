/* attention_device.h - attention for a GPU: which kernels take a call. Those on
 * tensor cores (attention_mma.h) if they take type and shape, else those for
 * every one (attention_lanes.h). */
#ifndef MGPU_KERNELS_LLM_ATTENTION_DEVICE_H
#define MGPU_KERNELS_LLM_ATTENTION_DEVICE_H

#include "kernels/llm/attention_back_lanes.h"
#include "kernels/llm/attention_dkv_mma.h"
#include "kernels/llm/attention_dq_mma.h"
#include "kernels/llm/attention_fwd_mma.h"

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

template <class T, int D>
void run_fwd_mma(struct device *d, T *o, int64_t ldo, acc<T> *lse,
                 const seen<T> &in)
{
    mma_units units(d, in.kv_heads, in.rows * in.group());
    const int64_t grid = units.split(d, in.rows * in.heads * D * 16);

    launch(d, grid, attend_mma<T, D>, o, (int)ldo, lse, mma_seen_of(in), units);
}

template <class T>
int run_fwd(struct device *d, T *o, int64_t ldo, acc<T> *lse, const seen<T> &in,
            struct error *)
{
    const int64_t units = in.heads * tiles_of(in.rows, QUERIES);
    const uintptr_t addresses =
        bits_of(in.q) | bits_of(in.k) | bits_of(in.v) | bits_of(o);

    if constexpr (sizeof(T) == 2)
        if (fits_mma(in, ldo, addresses)) {
            if (in.D == 64)
                run_fwd_mma<T, 64>(d, o, ldo, lse, in);
            else
                run_fwd_mma<T, 128>(d, o, ldo, lse, in);
            return 0;
        }
    by_width<T>(in.D, in.ld | ldo, addresses, [&](auto w) {
        launch(d, blocks(d, units * QUERIES * in.D * 16, units),
               attend<T, decltype(w)::W>, o, ldo, lse, in);
    });
    return 0;
}

template <class T, int D>
int run_bwd_mma(struct device *d, const seen<T> &in, const grads<T> &g,
                const T *o, struct error *err)
{
    const int64_t apart = (in.rows + 1) / 2 * 2, n = in.rows * in.heads;
    mma_units by_query(d, in.kv_heads, in.rows * in.group()),
        by_key(d, in.kv_heads, in.rows);
    const int64_t for_query = by_query.split(d, n * D * 16),
                  for_key = by_key.split(d, n * D * 16);
    float *about = scratch<float>(d, in.heads * apart * 2, err);

    if (!about)
        return -1;
    const mma_grads<T> of = {g.dq,       g.dk,       g.dv,  g.dout,
                             (int)g.ldd, (int)g.ldo, about, (int)apart};
    launch(d, blocks(d, n * D, n), fill_about<T, D>, about, apart, g.lse,
           g.dout, o, g.ldo, (int)in.rows, (int)in.heads);
    launch(d, for_query, attend_dq_mma<T, D>, mma_seen_of(in), of, by_query);
    launch(d, for_key, attend_dkv_mma<T, D>, mma_seen_of(in), of, by_key);
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

    if constexpr (sizeof(T) == 2)
        if (fits_mma(in, g.ldo | g.ldd, addresses))
            return in.D == 64 ? run_bwd_mma<T, 64>(d, in, g, o, err)
                              : run_bwd_mma<T, 128>(d, in, g, o, err);
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
