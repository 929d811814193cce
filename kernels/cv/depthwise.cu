/* depthwise.cu - depthwise 3x3 convolution, padding 1, stride 1 or 2, NHWC.
 *
 * One filter [3, 3] per channel: y[n,oh,ow,c] = sum over kh, kw of
 * x[n, oh*s + kh - 1, ow*s + kw - 1, c] * w[kh,kw,c]. Its kernels are in
 * depthwise_rows.h for the host and in depthwise_*_walk.h for a GPU; here are the
 * ops, and what both begin and end with. */
#include "kernels/exec/exec_norm.h"
#ifdef EXEC_CUDA
#include "kernels/cv/depthwise_fwd_walk.h"
#include "kernels/cv/depthwise_pair_walk.h"
#else
#include "kernels/cv/depthwise_rows.h"
#endif

namespace
{

#ifndef EXEC_CUDA
FN bool inside(int i, int n)
{
    return (unsigned)i < (unsigned)n;
}

/* Calls f(kh, kw, offset) for each tap of the 3x3 window whose top left corner
 * is (h0, w0) and that lies inside the image; `offset` is relative to that
 * corner. */
template <class F> FN void window(const conv3 &s, int h0, int w0, F f)
{
    const int64_t down = (int64_t)s.W * s.C;

    if (w0 >= 0 && w0 + 2 < s.W) {
        UNROLL for (int kh = 0; kh < 3; kh++)
            if (inside(h0 + kh, s.H)) {
                UNROLL for (int kw = 0; kw < 3; kw++)
                    f(kh * 3 + kw, kh * down + kw * s.C);
            }
        return;
    }
    UNROLL for (int kh = 0; kh < 3; kh++)
        UNROLL for (int kw = 0; kw < 3; kw++)
            if (inside(h0 + kh, s.H) && inside(w0 + kw, s.W))
                f(kh * 3 + kw, kh * down + kw * s.C);
}

/* A few pixels of z at a distance of `apart`: their mean becomes the origin. */
template <class T, int W>
KERNEL sample(blk b, work<T> *z, const T *x, norm_of<T> in, const T *w, conv3 s,
              int64_t rows, int64_t apart)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, s.C / W);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(s.C / W)) {
            int64_t pixel = r * apart, n = pixel / s.OW / s.OH;
            int h0 = (int)(pixel / s.OW % s.OH) * s.stride - 1;
            int w0 = (int)(pixel % s.OW) * s.stride - 1;
            const T *at =
                x + ((n * s.H + h0) * s.W + w0) * (int64_t)s.C + t * W;
            V sum = V::of(0);
            window(s, h0, w0, [&](int k, int64_t off) {
                V v = V::load(at + off);
                if (in.mean)
                    v = norm_cols<T, W>(in, t * W).u(v);
                sum += v * V::load(w + k * s.C + t * W);
            });
            sum.store(z + r * s.C + t * W);
        }
}
#endif

int check(const char *op, const struct conv3 *s, struct error *err)
{
    bool sizes = s->N > 0 && s->H > 0 && s->W > 0 && s->C > 0;
    bool stride = s->stride == 1 || s->stride == 2;

    if (!sizes || !stride || s->OH != (s->H - 1) / s->stride + 1 ||
        s->OW != (s->W - 1) / s->stride + 1)
        return error_set(err, ERR_INVAL,
                         "%s: [%d, %d, %d, %d] to [%d, %d], stride %d", op,
                         s->N, s->H, s->W, s->C, s->OH, s->OW, s->stride);
    return 0;
}

int64_t outputs(const struct conv3 *s)
{
    return (int64_t)s->N * s->OH * s->OW * s->C;
}

/* Blocks that sum; a part of the host has to make some lines once more. */
int64_t dw_parts(struct device *d, const struct conv3 *s)
{
    enum { LEAST = 16 };
    return parts_for(d, outputs(s) * 4, (int64_t)s->N * s->OH, LEAST);
}

#ifdef EXEC_CUDA
template <int N> struct number {
    constexpr operator int() const
    {
        return N;
    }
};

/* f(stride, whether u is clamped), both constants. */
template <class F>
void by_stride_and_cap(const struct conv3 *s, const struct norm *in, F f)
{
    const bool clamps = in && in->cap > 0;

    if (s->stride == 1)
        clamps ? f(number<1>(), number<1>()) : f(number<1>(), number<0>());
    else
        clamps ? f(number<2>(), number<1>()) : f(number<2>(), number<0>());
}
#endif

int check_stats(const struct norm_stats *stats, int64_t rows, struct error *err)
{
    if (stats && rows < 2)
        return error_set(err, ERR_INVAL,
                         "3x3 convolution: statistics of %lld rows",
                         (long long)rows);
    return 0;
}

#ifdef EXEC_CUDA
template <class T>
int dw_fwd(struct device *d, void *z, const struct norm_stats *stats,
            const void *x, const struct norm *in, const void *w,
            const struct conv3 *s, struct error *err)
{
    const norm_of<T> nx(in);
    const T *X = (const T *)x, *F = (const T *)w;
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("3x3 convolution", s, err) < 0 ||
        check_stats(stats, rows, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s);
    double *room = scratch<double>(d, own_sums<T>::size(parts, C), err);
    if (!room)
        return -1;
    own_sums<T> own(room, parts, C);
    if (!stats)
        own.origin = nullptr;
    by_stride_and_cap(s, in, [&](auto stride, auto clamps) {
        constexpr int wide = fwd_width<T, clamps>;
        if (width_of<T>(C, z, x, nx, w, own.origin) >= wide)
            launch(d, parts, fwd_walk<T, wide, stride, clamps>, own, (T *)z, X,
                   nx, F, *s);
        else
            launch(d, parts, fwd_walk<T, 1, stride, clamps>, own, (T *)z, X, nx,
                   F, *s);
    });
    if (stats)
        launch(d, fold_blocks(d, C), norm_merge<T>, stats_of<T>(stats), own,
               parts, rows, C);
    return finish(d, "3x3 convolution", err);
}
#else
template <class T>
int dw_fwd(struct device *d, void *z, const struct norm_stats *stats,
            const void *x, const struct norm *in, const void *w,
            const struct conv3 *s, struct error *err)
{
    typedef acc<T> A;
    const norm_of<T> nx(in);
    const T *X = (const T *)x, *F = (const T *)w;
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("3x3 convolution", s, err) < 0 ||
        check_stats(stats, rows, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s), few = origin_rows(rows);
    const int64_t room = d->threads * dw_room(s);
    double *part =
        scratch<double>(d, 2 * parts * C + doubles<A>(C) +
                               doubles<work<T>>(few * C) + doubles<A>(room),
                        err);
    if (!part)
        return -1;
    A *origin = (A *)(part + 2 * parts * C);
    work<T> *few_z = (work<T> *)((double *)origin + doubles<A>(C));
    if (stats) {
        LAUNCH_ROWS(C, blocks(d, few * C, few), sample, few_z, X, nx, F, *s,
                    few, rows / few);
        launch(d, blocks(d, few * C, C), norm_origin<T, work<T>>, origin,
               (const work<T> *)few_z, few, (int64_t)1, C);
    }
    double *sums = stats ? part : nullptr;
    if (stats && !at_one_go) /* dw_rows_fwd adds to them row by row */
        launch(d, blocks(d, 2 * parts * C), clear<double>, part,
               2 * parts * C);
    A *lines = (A *)((double *)few_z + doubles<work<T>>(few * C));
    launch(d, 1, clear_zeros<A>, lines, (int64_t)d->threads, dw_room(s),
           (int64_t)s->W * C);
    LAUNCH_ROWS(C, parts, dw_rows_fwd, (T *)z, X, nx, F, *s, lines, sums,
                (const A *)origin);
    if (stats)
        launch(d, fold_blocks(d, C), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, parts, rows, C);
    return finish(d, "3x3 convolution", err);
}
#endif

#ifdef EXEC_CUDA
template <class T>
int dw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
            const void *dn, const void *z, const struct norm *norm,
            const void *sums, const void *x, const struct norm *in,
            const void *w, const struct conv3 *s, struct error *err)
{
    typedef acc<T> A;
    const norm_of<T> nx(in);
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("3x3 convolution's gradient", s, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s);
    double *part = scratch<double>(d, 11 * parts * C, err);
    if (!part)
        return -1;
    const back_of<T> a = {(T *)dx,
                          (const T *)dn,
                          (const T *)z,
                          (const T *)x,
                          (const T *)w,
                          norm_of<T>(norm),
                          nx,
                          (const A *)sums,
                          1 / (A)rows,
                          *s};
    by_stride_and_cap(s, in, [&](auto stride, auto clamps) {
        if (width_of<T>(C, a) >= bwd_width<T>)
            launch(d, parts, bwd_walk<T, bwd_width<T>, stride, clamps>, part,
                   a);
        else
            launch(d, parts, bwd_walk<T, 1, stride, clamps>, part, a);
    });
    launch(d, fold_blocks(d, 11 * C), fold_walk<T>,
           out ? (A *)out->sums : nullptr, out ? (T *)out->dgamma : nullptr,
           out ? (T *)out->dbeta : nullptr, (T *)dw,
           out ? (const A *)in->rstd : nullptr, (const double *)part, parts, C);
    return finish(d, "3x3 convolution's gradient", err);
}
#else
/* part [parts, 11, C] as depthwise_rows.h has it: the filter's gradient. */
template <class T>
KERNEL fold_filter(blk b, T *dw, const double *part, int64_t parts, int64_t C)
{
    for (int64_t i : b.each(9 * C))
        dw[i] = (T)fold_at(part, parts, 11 * C, 2 * C + i);
}
template <class T>
KERNEL fold_sums(blk b, acc<T> *sums, T *dgamma, T *dbeta, const double *part,
                 int64_t parts, int64_t C)
{
    for (int64_t i : b.each(2 * C)) {
        double s = fold_at(part, parts, 11 * C, i);
        sums[i] = (acc<T>)s;
        (i < C ? dgamma + i : dbeta + (i - C))[0] = (T)s;
    }
}

template <class T>
int dw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
            const void *dn, const void *z, const struct norm *norm,
            const void *sums, const void *x, const struct norm *in,
            const void *w, const struct conv3 *s, struct error *err)
{
    typedef acc<T> A;
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("3x3 convolution's gradient", s, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s), room = d->threads * dw_room(s);
    const int64_t filters = (int64_t)d->threads * 9 * C;
    double *part =
        scratch<double>(d, 11 * parts * C + doubles<A>(filters) +
                               doubles<A>(room),
                        err);
    if (!part)
        return -1;
    A *dws = (A *)(part + 11 * parts * C);
    A *lines = (A *)((double *)dws + doubles<A>(filters));
    launch(d, blocks(d, 11 * parts * C), clear<double>, part, 11 * parts * C);
    launch(d, blocks(d, filters), clear<A>, dws, filters);
    launch(d, 1, clear_zeros<A>, lines, (int64_t)d->threads, dw_room(s),
           (int64_t)s->W * C);
    const dw_back<T> a = {(T *)dx,
                          (const T *)dn,
                          (const T *)z,
                          (const T *)x,
                          (const T *)w,
                          norm_of<T>(norm),
                          norm_of<T>(in),
                          (const A *)sums,
                          1 / (A)rows,
                          *s};
    LAUNCH_ROWS(C, parts, dw_rows_bwd, a, lines, dws, part);
    launch(d, blocks(d, 9 * C), fold_filter<T>, (T *)dw, (const double *)part,
           parts, C);
    if (in)
        launch(d, blocks(d, 2 * C), fold_sums<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)part, parts,
               C);
    return finish(d, "3x3 convolution's gradient", err);
}
#endif

} // namespace

FAMILY(depthwise)
{
    ops->dw_fwd = BY_TYPE(dw_fwd);
    ops->dw_bwd = BY_TYPE(dw_bwd);
}
