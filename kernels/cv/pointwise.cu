/* pointwise.cu - 1x1 convolution fused with the norms around it: a matrix
 * product over pixels, chunk by chunk, that normalises its input and sums its
 * output (exec_norm.h). */
#include "kernels/exec/exec_mma.h"
#include "kernels/exec/exec_norm.h"
#ifdef EXEC_CUDA
#include "kernels/exec/exec_merge.h"
#endif

namespace
{

#ifndef EXEC_CUDA
/* Gathers rows of u at a distance of `apart`: their mean becomes the origin. */
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
#endif

int check(const char *op, int64_t rows, int64_t least, int32_t K, int32_t N,
          struct error *err)
{
    if (rows < least || rows > INT32_MAX || K < 1 || N < 1)
        return error_set(err, ERR_INVAL,
                         "%s: %lld pixels of %d channels to %d channels; "
                         "between %lld and 2147483647 pixels are possible: "
                         "change train.batch_size or dataset.image_size",
                         op, (long long)rows, (int)K, (int)N, (long long)least);
    return 0;
}

#ifdef EXEC_CUDA
#include "kernels/cv/pointwise_back_mma.h"
#include "kernels/cv/pointwise_back_one_mma.h"
#include "kernels/cv/pointwise_mma.h"

/* Parts of the rows; the blocks of a part have a group of columns each. */
inline int64_t shares_for(struct device *d, const walk_shape &t, int64_t rows,
                          int64_t columns)
{
    const int64_t tiles = (rows + t.tall - 1) / t.tall;
    const int64_t n = parts_for(d, rows * columns, tiles * t.groups) / t.groups;

    return n > 1 ? n : 1;
}

/* A forward pass, up to the sums of z by blocks. */
template <class T> struct pw_call {
    typedef acc<T> A;
    struct device *d;
    T *z, *y; /* y may be NULL */
    const T *x, *skip, *w;
    norm_of<T> in;
    int64_t rows, K, N, parts;
    bool sums, plain; /* the sums are wanted; u is x */
    bool merges;      /* each block has an origin of its own */
    own_sums<T> own;  /* of the library's way one origin: the first */
    T *made;          /* room for u, where the library needs it */

    /* In one pass, on tensor cores. */
    int product(struct error *err)
    {
        const walk_shape t = walk_for(exec_of(d)->lanes / 32, N);
        own_sums<T> to = own;

        if (!sums)
            to.part = nullptr;
        merges = true;
        parts = shares_for(d, t, rows, K + N);
        if (skip || y)
            launch(d, parts * t.groups, pw_product<T, true>, z, to,
                   u_from<T, true>(y, x, skip, in, rows, K), w, N, t);
        else
            launch(d, parts * t.groups, pw_product<T, false>, z, to,
                   u_from<T, false>(y, x, skip, in, rows, K), w, N, t);
        return finish(d, "1x1 convolution", err);
    }

    int library(struct error *err)
    {
        const int64_t few = origin_rows(rows);
        T *u = y ? y : made;

        merges = false;
        parts = parts_for(d, rows * (K + N), rows);
        if (!plain || y) {
            LAUNCH_ROWS(K, blocks(d, rows * K, rows), norm_rows, u, x, skip, in,
                        rows, K);
        }
        if (d->ops->gemm(d, dtype_of<T>, false, true, (int32_t)rows, (int32_t)N,
                         (int32_t)K, 1, plain ? x : u, (int32_t)K, w,
                         (int32_t)K, 0, z, (int32_t)N, err) < 0)
            return error_wrap(err, "1x1 convolution");
        if (sums) {
            launch(d, blocks(d, few * N, N), norm_origin<T, T>, own.origin,
                   (const T *)z, few, rows / few, N);
            LAUNCH_ROWS(N, parts, norm_sums, own.part, (const T *)z,
                        (const A *)own.origin, rows, N);
        }
        return finish(d, "1x1 convolution", err);
    }

    static int run(void *arg, bool by_library, struct error *err)
    {
        pw_call *c = static_cast<pw_call *>(arg);

        if constexpr (sizeof(T) == 2) {
            if (!by_library)
                return c->product(err);
        }
        return c->library(err);
    }

    /* The tensor cores' way, unless the shape does not fit it or the device has
     * found the library to be faster. */
    int choose(struct error *err)
    {
        struct exec_device *e = exec_of(d);
        const uintptr_t at = bits_of(z) | bits_of(y) | bits_of(x) |
                             bits_of(skip) | bits_of(w) | bits_of(in);
        const int64_t key[VARIANT_KEY] = {
            rows, K, N, dtype_of<T>, sums + 2 * plain + 4 * (y != nullptr)};
        bool by_library = !fits_product<T>(K, N, at) || adds_clamped(skip, in);

        if (!by_library && e->faster &&
            e->faster(e, key, run, this, &by_library, err) < 0)
            return -1;
        return run(this, by_library, err);
    }
};

template <class T>
int pw_fwd(struct device *d, void *z, const struct norm_stats *stats, void *y,
           const void *x, const struct norm *in, const void *skip,
           const void *w, int64_t rows, int32_t K, int32_t N, struct error *err)
{
    typedef acc<T> A;

    if (check("1x1 convolution", rows, stats ? 2 : 1, K, N, err) < 0)
        return -1;
    const bool plain = !in && !skip;
    const int64_t most = parts_for(d, rows * ((int64_t)K + N), rows);
    const int64_t sums = own_sums<T>::size(most, N);
    double *room =
        scratch<double>(d, sums + doubles<T>(plain || y ? 0 : rows * K), err);
    if (!room)
        return -1;
    pw_call<T> c = {d,
                    (T *)z,
                    (T *)y,
                    (const T *)x,
                    (const T *)skip,
                    (const T *)w,
                    norm_of<T>(in),
                    rows,
                    K,
                    N,
                    0,
                    stats != nullptr,
                    plain,
                    false,
                    own_sums<T>(room, most, N),
                    (T *)(room + sums)};
    if (c.choose(err) < 0)
        return -1;
    if (stats && c.merges)
        launch(d, fold_blocks(d, N), norm_merge<T>, stats_of<T>(stats), c.own,
               c.parts, rows, N);
    else if (stats)
        launch(d, fold_blocks(d, N), norm_finish<T>, stats_of<T>(stats),
               (const A *)c.own.origin, (const double *)c.own.part, c.parts,
               rows, N);
    return finish(d, "1x1 convolution", err);
}

/* A backward pass. */
template <class T> struct pw_back_call {
    typedef acc<T> A;
    struct device *d;
    T *dx, *dw; /* dx may be NULL */
    dz_from<T> dz;
    const T *u; /* or NULL: norm(gate.x) */
    gate_of<T> gate;
    const T *w;
    int64_t K;
    A *sums; /* NULL: dx is not gated */
    T *dgamma, *dbeta;

    /* Room for the parts of the gated sums, then for those of dw. */
    double *room(int64_t parts, int64_t shares, struct error *err)
    {
        return scratch<double>(
            d, 2 * parts * K + doubles<float>(shares * dz.C * K), err);
    }

    u_from<T, false> from() const
    {
        return {nullptr, u ? u : gate.x,
                nullptr, u ? norm_of<T>(nullptr) : gate.in,
                dz.rows, K};
    }
    gate_of<T> gated() const
    {
        return {gate.extra, sums ? gate.x : nullptr, gate.in};
    }

    int fold(const double *part, int64_t parts, const float *dws,
             int64_t shares, struct error *err)
    {
        const int64_t n = dz.C * K;

        launch(d, fold_blocks(d, n), pw_back_fold<T>, dw, dws, shares, n, sums,
               dgamma, dbeta, part, sums ? parts : 0, K);
        return finish(d, "1x1 convolution's gradient", err);
    }

    /* On tensor cores, dx and dw in one kernel. */
    int in_one(struct error *err)
    {
        const int64_t parts = parts_for(d, dz.rows * (K + dz.C),
                                        (dz.rows + BACK_ROWS - 1) / BACK_ROWS);
        double *part = room(parts, parts, err);

        if (!part)
            return -1;
        float *dws = (float *)(part + 2 * parts * K);
        launch(d, parts, pw_back_one<T>, dx, sums ? part : nullptr, dws, dz,
               from(), gated(), w);
        return fold(part, parts, dws, parts, err);
    }

    /* On tensor cores, each in a kernel of its own. */
    int in_two(struct error *err)
    {
        const int64_t rows = dz.rows, N = dz.C;
        const walk_shape walk = walk_for(exec_of(d)->lanes / 32, K);
        const int64_t parts = shares_for(d, walk, rows, K + N);
        const tile_of_dw t = tile_for(exec_of(d)->lanes / 32, N, K);
        const int64_t tiles = t.down * t.across;
        const int64_t most = (rows + BACK_ROWS - 1) / BACK_ROWS;
        int64_t shares = exec_of(d)->max_parts / tiles;
        shares = shares < 1 ? 1 : shares < most ? shares : most;
        double *part = room(parts, shares, err);

        if (!part)
            return -1;
        float *dws = (float *)(part + 2 * parts * K);
        if (dx)
            launch(d, parts * walk.groups, pw_back_dx<T>, dx,
                   sums ? part : nullptr, dz, gated(), w, K, walk);
        launch(d, shares * tiles, pw_back_dw<T>, dws, dz, from(), shares, t);
        return fold(part, parts, dws, shares, err);
    }

    int library(struct error *err)
    {
        const int64_t rows = dz.rows, N = dz.C;
        const int64_t parts = parts_for(d, rows * (K + N), rows);
        double *part = scratch<double>(d,
                                       2 * parts * K + doubles<T>(rows * N) +
                                           doubles<T>(u ? 0 : rows * K),
                                       err);
        if (!part)
            return -1;
        T *made_dz = (T *)(part + 2 * parts * K);
        T *made_u = (T *)((double *)made_dz + doubles<T>(rows * N));
        LAUNCH_ROWS(N, blocks(d, rows * N, rows), norm_dz, made_dz, dz.d, dz.z,
                    dz.norm, dz.sums, 1 / (A)rows, rows, N);
        if (!u)
            LAUNCH_ROWS(K, blocks(d, rows * K, rows), norm_rows, made_u, gate.x,
                        (const T *)nullptr, gate.in, rows, K);
        if (d->ops->gemm(d, dtype_of<T>, true, false, (int32_t)N, (int32_t)K,
                         (int32_t)rows, 1, made_dz, (int32_t)N, u ? u : made_u,
                         (int32_t)K, 0, dw, (int32_t)K, err) < 0 ||
            (dx && d->ops->gemm(d, dtype_of<T>, false, false, (int32_t)rows,
                                (int32_t)K, (int32_t)N, 1, made_dz, (int32_t)N,
                                w, (int32_t)K, 0, dx, (int32_t)K, err) < 0))
            return error_wrap(err, "1x1 convolution's gradient");
        if (sums) {
            LAUNCH_ROWS(K, parts, norm_gate, part, dx, gate.extra, gate.x,
                        gate.in, rows, K);
            launch(d, fold_blocks(d, 2 * K), norm_fold<T>, sums, dgamma, dbeta,
                   (const double *)part, parts, K);
        } else if (dx && gate.extra) {
            LAUNCH_ROWS(K, blocks(d, rows * K, rows), norm_rows, dx,
                        (const T *)dx, gate.extra, norm_of<T>(nullptr), rows,
                        K);
        }
        return finish(d, "1x1 convolution's gradient", err);
    }

    static int run(void *arg, bool by_library, struct error *err)
    {
        pw_back_call *c = static_cast<pw_back_call *>(arg);

        if constexpr (sizeof(T) == 2) {
            if (!by_library && c->dx &&
                fits_one(exec_of(c->d)->lanes / 32, c->dz.C, c->K))
                return c->in_one(err);
            if (!by_library)
                return c->in_two(err);
        }
        return c->library(err);
    }

    /* As pw_call does; the last value of the key is none of a forward pass. */
    int choose(struct error *err)
    {
        struct exec_device *e = exec_of(d);
        const uintptr_t at = bits_of(dx) | bits_of(dz.d) | bits_of(dz.z) |
                             bits_of(dz.norm) | bits_of(dz.sums) | bits_of(u) |
                             bits_of(gate.extra) | bits_of(gate.x) |
                             bits_of(gate.in) | bits_of(w);
        const int64_t key[VARIANT_KEY] = {
            dz.rows, K, dz.C, dtype_of<T>,
            8 + (dx != nullptr) + 2 * (sums != nullptr) + 4 * (u != nullptr) +
                16 * (gate.extra != nullptr)};
        bool by_library = !fits_product<T>(K, dz.C, at);

        if (!by_library && e->faster &&
            e->faster(e, key, run, this, &by_library, err) < 0)
            return -1;
        return run(this, by_library, err);
    }
};

template <class T>
int pw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
           const void *dn, const void *z, const struct norm *norm,
           const void *sums, const void *u, const void *x,
           const struct norm *in, const void *extra, const void *w,
           int64_t rows, int32_t K, int32_t N, struct error *err)
{
    const bool gates = dx && out && in && x;

    if (check("1x1 convolution's gradient", rows, 1, K, N, err) < 0)
        return -1;
    pw_back_call<T> c = {d,
                         (T *)dx,
                         (T *)dw,
                         {(const T *)dn, (const T *)z, norm_of<T>(norm),
                          (const acc<T> *)sums, rows, N},
                         (const T *)u,
                         {(const T *)extra, (const T *)x, norm_of<T>(in)},
                         (const T *)w,
                         K,
                         gates ? (acc<T> *)out->sums : nullptr,
                         gates ? (T *)out->dgamma : nullptr,
                         gates ? (T *)out->dbeta : nullptr};
    return c.choose(err);
}
#endif

} // namespace

#ifndef EXEC_CUDA
#include "kernels/cv/pointwise_rows.h"
#endif

FAMILY(pointwise)
{
    ops->pw_fwd = BY_TYPE(pw_fwd);
    ops->pw_bwd = BY_TYPE(pw_bwd);
}
