/* pointwise_rows.h - 1x1 convolution fused with the norms around it, for the
 * host.
 *
 * Pixels are in slots, as many as the shape says, so that sums do not depend on
 * the number of threads. A thread processes slots, some consecutive pixels at a
 * time that fit its L2 cache: it normalises them, multiplies, and sums the
 * product while it is in registers. The backward pass computes dz and u of some
 * pixels, from these the gradient of the input, gated and summed in registers,
 * and that of the weights, which every slot accumulates in its own buffer. Few
 * pixels are one slot, because such buffers cost more than they save: there the
 * threads share its columns.
 *
 * pointwise.cu has the portable kernels; the contract test compares this one
 * with a reference on the host, and the portable ones in the emulator. */
#ifndef MGPU_KERNELS_CV_POINTWISE_ROWS_H
#define MGPU_KERNELS_CV_POINTWISE_ROWS_H

#include "kernels/cv/product_rows.h"
#include "kernels/cv/slot_rows.h"

namespace
{

/* z [rows, n]: stores it, and with sums [2, n] sums it about the origin. */
template <class T> struct put_z {
    typedef acc<T> A;
    T *z;
    int64_t n;
    A *sums;
    const A *origin;

    FN void fetch(int64_t r, int64_t c) const
    {
        __builtin_prefetch(z + r * n + c, 1);
    }
    template <int L, int M>
    FN void column(int64_t r, int64_t c, vec<A, L> (&col)[M]) const
    {
        typedef vec<A, L> V;
        T *to = z + r * n + c;

        UNROLL for (int i = 0; i < M; i++) col[i].store(to + i * n);
        if (!sums)
            return;
        const V o = V::load(origin + c);
        V s = V::load(sums + c), q = V::load(sums + n + c);
        UNROLL for (int i = 0; i < M; i++)
        {
            /* Sum the stored value. */
            V x = (converts<T> ? V::load(to + i * n) : col[i]) - o;
            s += x;
            q += x * x;
        }
        s.store(sums + c);
        q.store(sums + n + c);
    }
};

/* dx [rows, n]: adds extra, gates it by the clamp, and sums d * hat and d. */
template <class T, bool EXTRA, bool GATES> struct put_dx {
    typedef acc<T> A;
    T *dx;
    int64_t n;
    const T *extra, *x;
    norm_of<T> in;
    A *sums;

    FN void fetch(int64_t r, int64_t c) const
    {
        __builtin_prefetch(dx + r * n + c, 1);
        if (EXTRA)
            __builtin_prefetch(extra + r * n + c);
        if (GATES)
            __builtin_prefetch(x + r * n + c);
    }
    template <int L, int M>
    FN void column(int64_t r, int64_t c, vec<A, L> (&col)[M]) const
    {
        typedef vec<A, L> V;
        const int64_t at = r * n + c;

        if (EXTRA)
            UNROLL for (int i = 0; i < M; i++) col[i] +=
                V::load(extra + at + i * n);
        if (!GATES) {
            UNROLL for (int i = 0; i < M; i++) col[i].store(dx + at + i * n);
            return;
        }
        const norm_cols<T, L> p(in, c);
        V with = V::load(sums + c), alone = V::load(sums + n + c);
        UNROLL for (int i = 0; i < M; i++)
        {
            const V here = V::load(x + at + i * n);
            const V d = p.gate(col[i], here);
            d.store(dx + at + i * n);
            with += d * p.hat(here);
            alone += d;
        }
        with.store(sums + c);
        alone.store(sums + n + c);
    }
};

/* u [rows, ld] = x, or its norm, plus skip; x and skip have k columns. */
template <class T, int W>
KERNEL make_u(blk b, work<T> *u, int64_t ld, const T *x, const T *skip,
              norm_of<T> n, int64_t rows, int64_t k)
{
    norm_rows_to<T, W>(b, u, ld, x, skip, n, rows, k);
}

/* Arrays one after the other in scratch; the first pass starts at NULL and
 * computes their total size. */
struct room {
    double *at;
    template <class A> A *take(int64_t n)
    {
        A *a = (A *)at;
        at = (double *)((uintptr_t)at + (size_t)doubles<A>(n) * 8);
        return a;
    }
};

template <class T> struct fwd_room {
    typedef acc<T> A;
    double *part;     /* [slots, 2, n] */
    A *sums;          /* [threads, 2, n] */
    A *origin;        /* [n] */
    A *few_u, *few_z; /* [few, k], [few, n] */
    A *w;             /* [k, n] in order */
    A *us;            /* [threads, most, k], or nothing */

    double *place(double *from, const row_slots &by, int64_t k, int64_t n,
                  int64_t few, bool makes_u)
    {
        struct room r = {from};
        part = r.take<double>(by.slots * 2 * n);
        sums = r.take<A>(by.threads() * 2 * n);
        origin = r.take<A>(n);
        few_u = r.take<A>(few * k);
        few_z = r.take<A>(few * n);
        w = r.take<A>(k * padded<T>(n));
        us = r.take<A>(makes_u ? by.threads() * by.most * k : 0);
        return r.at;
    }
};

template <class T> struct fwd_args {
    T *z, *y;
    const T *x, *skip, *w;
    norm_of<T> in;
    int64_t k, n;
    bool makes_u; /* else u is x or y */
};

/* z for some rows of a slot; sums NULL: without statistics. */
template <class T>
void fwd_rows(const row_slots &by, const fwd_args<T> &a,
              const fwd_room<T> &room, bool sums, int64_t slot, int64_t lo,
              int64_t rows)
{
    typedef acc<T> A;
    enum { W = widest<T> };
    struct device *d = by.d;
    const int64_t k = a.k, n = a.n, me = host_thread();
    const T *x = a.x + lo * k, *skip = a.skip ? a.skip + lo * k : nullptr;
    norm_of<T> in = a.in;
    const A *u = room.us + me * by.most * k;

    if (a.y) {
        T *y = a.y + lo * k;
        LAUNCH_ROWS(k, 1, norm_rows, y, x, skip, in, rows, k);
        x = y;
        skip = nullptr;
        in = norm_of<T>(nullptr);
    }
    if (a.makes_u)
        LAUNCH_ROWS(k, 1, make_u, (A *)u, k, x, skip, in, rows, k);
    else
        u = (const A *)(const void *)x; /* T is A */
    A *mine = sums ? room.sums + me * 2 * n : nullptr;
    const put_z<T> out = {a.z + lo * n, n, mine, room.origin};
    by.columns(padded<A>(n), TILE_VECS * W, rows * n * k, [&](range of) {
        product<A, W>(u, rows, k, (const A *)room.w, of, out);
    });
    if (sums)
        flush_sums(room.part + slot * 2 * n, mine, 2 * n);
}

template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    enum { VALUES = 1 << 15, LEAST = 4 * TILE_ROWS, STAYS = 1 << 18 };
    const int64_t k = K, n = N;

    if (check("1x1 convolution", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const bool plain = !in && !skip;
    const fwd_args<T> a = {(T *)z,
                           (T *)y,
                           (const T *)x,
                           (const T *)skip,
                           (const T *)w,
                           norm_of<T>(in),
                           k,
                           n,
                           converts<T> || !(plain || y)};
    const row_slots by(d, rows, k + n, VALUES, LEAST);
    const int64_t few = origin_rows(rows), slots = by.slots;
    /* Sums in registers need their origin before z exists: compute it first,
     * from a few rows. If all of z stays in the cache, those rows would cost
     * more than a second pass over it. */
    const bool early = stats && rows * (k + n) > STAYS;
    fwd_room<T> room;
    const double *end = room.place(nullptr, by, k, n, few, a.makes_u);
    const int64_t size = (int64_t)((uintptr_t)end / 8);
    double *at = scratch<double>(d, size, err);
    if (!at)
        return -1;
    room.place(at, by, k, n, few, a.makes_u);
    launch(d, blocks(d, n * k, n), order_columns<T>, room.w, a.w, k, n,
           (int64_t)1, k);
    launch(d, 1, clear<double>, room.part, 2 * slots * n);
    launch(d, 1, clear<A>, room.sums, 2 * by.threads() * n);
    if (early) {
        LAUNCH_ROWS(k, 1, sample, room.few_u, a.x, a.skip, a.in, few,
                    rows / few, k);
        const put_z<A> out = {room.few_z, n, nullptr, nullptr};
        product<A, widest<T>>((const A *)room.few_u, few, k, (const A *)room.w,
                              {0, padded<A>(n), 1}, out);
        launch(d, 1, norm_origin<T, A>, room.origin, (const A *)room.few_z, few,
               (int64_t)1, n);
    }
    by.each([&](int64_t slot, int64_t lo, int64_t some, bool) {
        fwd_rows(by, a, room, early, slot, lo, some);
    });
    if (stats && !early) {
        launch(d, 1, norm_origin<T, T>, room.origin, (const T *)z, few,
               rows / few, n);
        LAUNCH_ROWS(n, slots, norm_sums, room.part, (const T *)z,
                    (const A *)room.origin, rows, n);
    }
    if (stats)
        launch(d, 1, norm_finish<T>, stats_of<T>(stats), (const A *)room.origin,
               (const double *)room.part, slots, rows, n);
    return finish(d, "1x1 convolution", err);
}

/* dw [n, k] = sum of the slots' parts [n, ld], in order, in A's precision. The
 * first slot's part is in dw already if parts lacks it. */
template <class T>
KERNEL add_slots(blk b, T *dw, const acc<T> *part, int64_t slots, int64_t n,
                 int64_t k, int64_t ld)
{
    for (int64_t r : b.share(n))
        for (int64_t c = 0; c < k; c++) {
            acc<T> s = part[r * ld + c];
            for (int64_t i = 1; i < slots; i++)
                s += part[(i * n + r) * ld + c];
            dw[r * k + c] = (T)s;
        }
}

template <class T> struct bwd_room {
    typedef acc<T> A;
    int64_t ld;   /* k in whole vectors */
    double *part; /* [slots, 2, k] */
    A *sums;      /* [threads, 2, k] */
    A *dws;       /* [slots, n, ld], or nothing: dw itself */
    A *dzs, *us;  /* [threads, most, n], [threads, most, ld] */
    A *w;         /* [n, k] in order */

    double *place(double *from, const row_slots &by, int64_t k, int64_t n,
                  bool in_place, bool makes_u)
    {
        struct room r = {from};
        ld = padded<T>(k);
        part = r.take<double>(by.slots * 2 * k);
        const int64_t threads = by.threads();
        sums = r.take<A>(threads * 2 * k);
        dws = r.take<A>(in_place ? 0 : by.slots * n * ld);
        dzs = r.take<A>(threads * by.most * n);
        us = r.take<A>(makes_u ? threads * by.most * ld : 0);
        w = r.take<A>(n * ld);
        return r.at;
    }
};

template <class T> struct bwd_args {
    T *dx, *dw;
    const T *dn, *z, *u, *x, *extra, *w;
    norm_of<T> norm, in;
    const acc<T> *sums;
    int64_t rows, k, n;
    bool gates, in_place, makes_u;
};

template <class T, bool EXTRA, bool GATES>
void bwd_dx(const bwd_args<T> &a, const bwd_room<T> &room, acc<T> *sums,
            const acc<T> *dz, range of, int64_t lo, int64_t rows)
{
    typedef acc<T> A;
    const put_dx<T, EXTRA, GATES> out = {a.dx + lo * a.k,
                                         a.k,
                                         EXTRA ? a.extra + lo * a.k : nullptr,
                                         GATES ? a.x + lo * a.k : nullptr,
                                         a.in,
                                         sums};
    product<A, widest<T>>(dz, rows, a.n, (const A *)room.w, of, out);
}

template <class T>
void bwd_rows(const row_slots &by, const bwd_args<T> &a,
              const bwd_room<T> &room, int64_t slot, int64_t lo, int64_t rows,
              bool first)
{
    typedef acc<T> A;
    enum { W = widest<T> };
    struct device *d = by.d;
    const int64_t k = a.k, n = a.n, ld = room.ld, me = host_thread();
    A *dz = room.dzs + me * by.most * n, *mine = room.us + me * by.most * ld;
    const A *u = mine;

    LAUNCH_ROWS(n, 1, norm_dz, dz, a.dn + lo * n, a.z + lo * n, a.norm, a.sums,
                1 / (A)a.rows, rows, n);
    if (!a.makes_u)
        u = (const A *)(const void *)(a.u + lo * k); /* T is A, ld is k */
    else if (a.u)
        LAUNCH_ROWS(k, 1, make_u, mine, ld, a.u + lo * k, (const T *)nullptr,
                    norm_of<T>(nullptr), rows, k);
    else
        LAUNCH_ROWS(k, 1, make_u, mine, ld, a.x + lo * k, (const T *)nullptr,
                    a.in, rows, k);
    A *dw = a.in_place ? (A *)(void *)a.dw : room.dws + slot * n * ld;
    A *sums = room.sums + me * 2 * k;
    by.columns(ld, TILE_VECS * W, 2 * rows * n * k, [&](range of) {
        turned_product<A, W>(dw, (const A *)dz, n, u, ld, of, rows, !first);
        if (!a.dx)
            return;
        if (a.extra && a.gates)
            bwd_dx<T, true, true>(a, room, sums, dz, of, lo, rows);
        else if (a.gates)
            bwd_dx<T, false, true>(a, room, sums, dz, of, lo, rows);
        else if (a.extra)
            bwd_dx<T, true, false>(a, room, sums, dz, of, lo, rows);
        else
            bwd_dx<T, false, false>(a, room, sums, dz, of, lo, rows);
    });
    if (a.gates)
        flush_sums(room.part + slot * 2 * k, sums, 2 * k);
}

template <class T>
int pw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
           const void *dn, const void *z, const struct norm *norm,
           const void *sums, const void *u, const void *x,
           const struct norm *in, const void *extra, const void *w,
           int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    enum { VALUES = 1 << 17, LEAST = 8 * TILE_ROWS };
    const int64_t k = K, n = N;

    if (check("1x1 convolution's gradient", rows, 1, K, N, err) < 0)
        return -1;
    const row_slots by(d, rows, k + n, VALUES, LEAST);
    const bool whole = !converts<T> && padded<T>(k) == k;
    const bwd_args<T> a = {(T *)dx,
                           (T *)dw,
                           (const T *)dn,
                           (const T *)z,
                           (const T *)u,
                           (const T *)x,
                           (const T *)extra,
                           (const T *)w,
                           norm_of<T>(norm),
                           norm_of<T>(in),
                           (const A *)sums,
                           rows,
                           k,
                           n,
                           dx && out && in,
                           whole && by.slots == 1,
                           !(u && whole)};
    bwd_room<T> room;
    const double *end = room.place(nullptr, by, k, n, a.in_place, a.makes_u);
    const int64_t size = (int64_t)((uintptr_t)end / 8);
    double *at = scratch<double>(d, size, err);
    if (!at)
        return -1;
    room.place(at, by, k, n, a.in_place, a.makes_u);
    launch(d, 1, clear<double>, room.part, 2 * by.slots * k);
    launch(d, 1, clear<A>, room.sums, 2 * by.threads() * k);
    if (dx)
        launch(d, blocks(d, n * k, k), order_columns<T>, room.w, a.w, n, k, k,
               (int64_t)1);
    by.each([&](int64_t slot, int64_t lo, int64_t some, bool first) {
        bwd_rows(by, a, room, slot, lo, some, first);
    });
    if (!a.in_place)
        launch(d, blocks(d, n * k, n), add_slots<T>, a.dw, (const A *)room.dws,
               by.slots, n, k, room.ld);
    if (a.gates)
        launch(d, 1, norm_fold<T>, (A *)out->sums, (T *)out->dgamma,
               (T *)out->dbeta, (const double *)room.part, by.slots, k);
    return finish(d, "1x1 convolution's gradient", err);
}

} // namespace
#endif
