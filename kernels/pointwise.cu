/* pointwise.cu - 1x1 convolution with the norms around it: a matrix product
 * over pixels whose input is normalised on the way in and whose output is
 * summed on the way out, chunk by chunk (exec_norm.h).
 */
#include "kernels/exec_norm.h"

namespace
{

/* Rows of u that lie `apart`, gathered: what the origin is made from. */
template <class T, int W>
KERNEL sample(blk b, work<T> *u, const T *x, const T *skip, norm_of<T> n,
              int64_t rows, int64_t apart, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(C / W)) {
            int64_t i = r * apart * C + t * W;
            V v = V::load(x + i);
            if (n.mean)
                v = norm_cols<T, W>(n, t * W).u(v);
            if (skip)
                v += V::load(skip + i);
            v.store(u + r * C + t * W);
        }
}

int check(const char *op, int64_t rows, int64_t least, int32_t K, int32_t N,
          struct error *err)
{
    if (rows < least || rows > INT32_MAX || K < 1 || N < 1)
        return error_set(err, ERR_INVAL, "%s: [%lld, %d] to %d channels", op,
                         (long long)rows, (int)K, (int)N);
    return 0;
}

/* Products of work<T>, row major, without gaps between the rows; any thread.
 */
template <class T>
int product(struct device *d, bool ta, bool tb, int64_t m, int64_t n, int64_t k,
            const work<T> *A, const work<T> *B, bool adds, work<T> *C)
{
    return d->ops->gemm(d, dtype_of<work<T>>, ta, tb, (int32_t)m, (int32_t)n,
                        (int32_t)k, 1, A, (int32_t)(ta ? m : k), B,
                        (int32_t)(tb ? k : n), adds, C, (int32_t)n, NULL);
}

/* p as work<T>: itself, or a copy in `room`. */
template <class T>
const work<T> *at_work(struct device *d, const chunks &all, const T *p,
                       work<T> *room, int64_t n)
{
    if constexpr (converts<T>) {
        LAUNCH_FLAT(all.grid(n, n), to_work, room, p, n);
        return room;
    } else {
        return p;
    }
}

/* Where a product that belongs at p is put: there, or in `room`. */
template <class T> work<T> *put_work(T *p, work<T> *room)
{
    if constexpr (converts<T>)
        return room;
    else
        return p;
}
template <class T>
void from_room(struct device *d, const chunks &all, T *p, const work<T> *room,
               int64_t n)
{
    if constexpr (converts<T>)
        LAUNCH_FLAT(all.grid(n, n), from_work, p, room, n);
}

/* What pw_fwd has in scratch, beside the sums. */
template <class T> struct pw_room {
    typedef work<T> G;
    acc<T> *origin; /* [N] */
    G *few_z;       /* [few, N] */
    G *us;          /* [few or slots * most, K], both in turn */
    G *w;           /* [N, K], zs [slots * most, N]: where T converts */
    G *zs;

    pw_room(double *at, int64_t n, int64_t few, int64_t u, int64_t weights)
        : origin((acc<T> *)at), few_z((G *)(at + doubles<acc<T>>(n))),
          us((G *)((double *)few_z + doubles<G>(few * n))),
          w((G *)((double *)us + doubles<G>(u))),
          zs((G *)((double *)w + doubles<G>(weights)))
    {
    }
};

template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    typedef work<T> G;
    const int64_t k = K, n = N;
    const norm_of<T> norm(in);
    const bool plain = !in && !skip;
    const T *X = (const T *)x, *S = (const T *)skip;

    if (check("pw_fwd", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const chunks all(d, rows, k + n);
    const int64_t few = origin_rows(rows), parts = all.all_parts();
    /* Sums that are taken with z still in the cache need their origin before
     * z is there: from a few rows, made first. Where all of z stays in the
     * cache, or on a GPU, they are taken in the end. */
    const bool early = stats && all.most < rows;
    const int64_t many = all.slots * all.most;
    const int64_t us = ((plain || y) && !converts<T> ? few : many) * k;
    const int64_t weights = converts<T> ? n * k : 0;
    double *part = scratch<double>(
        d,
        2 * parts * n + doubles<A>(n) + doubles<G>(few * n) + doubles<G>(us) +
            doubles<G>(weights) + doubles<G>(converts<T> ? many * n : 0),
        err);
    if (!part)
        return -1;
    const pw_room<T> room(part + 2 * parts * n, n, few, us, weights);
    const G *W = at_work<T>(d, all, (const T *)w, room.w, n * k);
    if (stats)
        launch(d, blocks(d, 2 * parts * n), clear<double>, part, 2 * parts * n);
    if (early) {
        LAUNCH_ROWS(k, blocks(d, few * k, few), sample, room.us, X, S, norm,
                    few, rows / few, k);
        if (product<T>(d, false, true, few, n, k, room.us, W, false,
                       room.few_z) < 0)
            return error_set(err, ERR_EXTERN, "pw_fwd: GEMM");
        launch(d, blocks(d, few * n, n), norm_origin<T, G>, room.origin,
               (const G *)room.few_z, few, (int64_t)1, n);
    }
    int rc = all.each([&](chunk c) {
        const T *xc = X + c.lo * k, *sc = S ? S + c.lo * k : S;
        T *zc = (T *)z + c.lo * n, *yc = y ? (T *)y + c.lo * k : nullptr;
        G *mine = room.us + c.slot * all.most * k;
        G *made = put_work<T>(zc, room.zs + c.slot * all.most * n);
        const int64_t grid = all.grid(c.rows * k, c.rows);
        const G *u = mine;
        if (plain) {
            u = at_work<T>(d, all, xc, mine, c.rows * k);
        } else if (yc) {
            LAUNCH_ROWS(k, grid, norm_rows, yc, xc, sc, norm, c.rows, k);
            u = at_work<T>(d, all, (const T *)yc, mine, c.rows * k);
        } else {
            LAUNCH_ROWS(k, grid, norm_rows_work, mine, xc, sc, norm, c.rows, k);
        }
        if (product<T>(d, false, true, c.rows, n, k, u, W, false, made) < 0)
            return -1;
        from_room<T>(d, all, zc, made, c.rows * n);
        if (early)
            LAUNCH_ROWS(n, all.parts, norm_sums,
                        part + c.slot * all.parts * 2 * n, (const T *)zc,
                        (const A *)room.origin, c.rows, n);
        return 0;
    });
    if (rc < 0)
        return error_set(err, ERR_EXTERN, "pw_fwd: GEMM");
    if (stats && !early) {
        launch(d, blocks(d, few * n, n), norm_origin<T, T>, room.origin,
               (const T *)z, few, rows / few, n);
        LAUNCH_ROWS(n, parts, norm_sums, part, (const T *)z,
                    (const A *)room.origin, rows, n);
    }
    if (stats)
        launch(d, blocks(d, n), norm_finish<T>, stats_of<T>(stats),
               (const A *)room.origin, (const double *)part, parts, rows, n);
    return finish(d, "pw_fwd", err);
}

/* The slots' weight gradients, in order; in A's precision. */
template <class T>
KERNEL add_slots(blk b, T *dw, const work<T> *part, int64_t slots, int64_t n)
{
    for (int64_t i : b.each(n)) {
        acc<T> s = (acc<T>)part[i];
        for (int64_t k = 1; k < slots; k++)
            s += (acc<T>)part[k * n + i];
        dw[i] = (T)s;
    }
}

/* What pw_bwd has in scratch, beside the sums. */
template <class T> struct pw_back_room {
    typedef work<T> G;
    int64_t dw, dz, u, w, dx; /* values */
    G *dws;                   /* [slots, N, K], unless dw itself will do */
    G *dzs;                   /* [slots * most, N] */
    G *us;                    /* [slots * most, K], unless u will do */
    G *ws, *dxs;              /* [N, K], [slots * most, K]: where T converts */

    pw_back_room(const chunks &all, int64_t n, int64_t k, bool has_u,
                 bool has_dx)
    {
        const int64_t many = all.slots * all.most;
        dw = all.slots > 1 || converts<T> ? all.slots * n * k : 0;
        dz = many * n;
        u = has_u && !converts<T> ? 0 : many * k;
        w = has_dx && converts<T> ? n * k : 0;
        dx = has_dx && converts<T> ? many * k : 0;
    }
    int64_t size() const
    {
        return doubles<G>(dw) + doubles<G>(dz) + doubles<G>(u) + doubles<G>(w) +
               doubles<G>(dx);
    }
    void place(double *at)
    {
        dws = (G *)at;
        dzs = (G *)(at += doubles<G>(dw));
        us = (G *)(at += doubles<G>(dz));
        ws = (G *)(at += doubles<G>(u));
        dxs = (G *)(at + doubles<G>(w));
    }
};

template <class T>
int pw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
           const void *dn, const void *z, const struct norm *norm,
           const void *sums, const void *u, const void *x,
           const struct norm *in, const void *extra, const void *w,
           int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;
    typedef work<T> G;
    const int64_t k = K, n = N;
    const norm_of<T> nz(norm), nx(in);
    const bool gates = dx && out && in;
    const A inv = 1 / (A)rows;

    if (check("pw_bwd", rows, 1, K, N, err) < 0)
        return -1;
    const chunks all(d, rows, k + n);
    const int64_t parts = all.all_parts();
    pw_back_room<T> room(all, n, k, u, dx);
    double *part = scratch<double>(d, 2 * parts * k + room.size(), err);
    if (!part)
        return -1;
    room.place(part + 2 * parts * k);
    G *dws = room.dw > 0 ? room.dws : (G *)dw; /* T is G then */
    launch(d, blocks(d, 2 * parts * k), clear<double>, part, 2 * parts * k);
    const G *W =
        dx ? at_work<T>(d, all, (const T *)w, room.ws, n * k) : nullptr;
    int rc = all.each([&](chunk c) {
        G *dz = room.dzs + c.slot * all.most * n;
        G *mine = room.us + c.slot * all.most * k;
        const T *xc = (const T *)x + c.lo * k;
        const G *uc = mine;
        LAUNCH_ROWS(n, all.grid(c.rows * n, c.rows), norm_dz, dz,
                    (const T *)dn + c.lo * n, (const T *)z + c.lo * n, nz,
                    (const A *)sums, inv, c.rows, n);
        if (u)
            uc = at_work<T>(d, all, (const T *)u + c.lo * k, mine, c.rows * k);
        else
            LAUNCH_ROWS(k, all.grid(c.rows * k, c.rows), norm_rows_work, mine,
                        xc, (const T *)nullptr, nx, c.rows, k);
        if (product<T>(d, true, false, n, k, c.rows, dz, uc, !c.first,
                       dws + c.slot * n * k) < 0)
            return -1;
        if (!dx)
            return 0;
        T *dxc = (T *)dx + c.lo * k;
        G *made = put_work<T>(dxc, room.dxs + c.slot * all.most * k);
        if (product<T>(d, false, false, c.rows, k, n, dz, W, false, made) < 0)
            return -1;
        from_room<T>(d, all, dxc, made, c.rows * k);
        const T *ec = extra ? (const T *)extra + c.lo * k : nullptr;
        if (gates)
            LAUNCH_ROWS(k, all.parts, norm_gate,
                        part + c.slot * all.parts * 2 * k, dxc, ec, xc, nx,
                        c.rows, k);
        else if (ec)
            LAUNCH_ROWS(k, all.grid(c.rows * k, c.rows), norm_rows, dxc,
                        (const T *)dxc, ec, norm_of<T>(nullptr), c.rows, k);
        return 0;
    });
    if (rc < 0)
        return error_set(err, ERR_EXTERN, "pw_bwd: GEMM");
    if (room.dw > 0)
        launch(d, blocks(d, n * k), add_slots<T>, (T *)dw, (const G *)dws,
               all.slots, n * k);
    if (gates)
        launch(d, blocks(d, 2 * k), norm_fold<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)part, parts,
               k);
    return finish(d, "pw_bwd", err);
}

} // namespace

FAMILY(pointwise)
{
    ops->pw_fwd = BY_TYPE(pw_fwd);
    ops->pw_bwd = BY_TYPE(pw_bwd);
}
