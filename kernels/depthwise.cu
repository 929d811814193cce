/* depthwise.cu - depthwise 3x3 convolution, padding 1, stride 1 or 2, NHWC.
 *
 * One filter [3, 3] per channel: y[n,oh,ow,c] = sum over kh, kw of
 * x[n, oh*s + kh - 1, ow*s + kw - 1, c] * w[kh,kw,c]. There are only nine
 * multiplications per value, so memory decides: channels are the vector, the
 * nine filter values stay in registers, and a row of the image is walked
 * once. Pixels whose three columns are all inside, nearly all of them, take
 * a path without column checks.
 */
#include "kernels/exec_norm.h"
#ifndef EXEC_CUDA
#include "kernels/depthwise_rows.h"
#endif

namespace
{

/* Rows of the image whose filter gradients are summed in registers. */
enum { CHUNK_ROWS = 16 };

FN bool inside(int i, int n)
{
    return (unsigned)i < (unsigned)n;
}

/* f(kh, kw, offset) for each tap of the 3x3 window whose top left corner is
 * (h0, w0) and that lies inside the image; `offset` is from that corner. */
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

/* With `turned`, the filter is read from its last tap to its first. */
template <class T, int W>
KERNEL fwd(blk b, T *y, const T *x, const T *w, conv3 s, int turned)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, s.C / W);
    const int64_t image = (int64_t)s.H * s.W * s.C;

    for (int64_t row : b.share((int64_t)s.N * s.OH)) {
        int h0 = (int)(row % s.OH) * s.stride - 1;
        for (int64_t t : lay.cols(s.C / W)) {
            const T *img = x + row / s.OH * image + t * W;
            V f[9];
            UNROLL for (int k = 0; k < 9; k++)
                f[k] = V::load(w + (turned ? 8 - k : k) * s.C + t * W);
            for (int64_t ow : lay.rows({0, s.OW, 1})) {
                int w0 = (int)ow * s.stride - 1;
                const T *p = img + ((int64_t)h0 * s.W + w0) * s.C;
                V sum = V::of(0);
                window(s, h0, w0, [&](int k, int64_t off) {
                    sum += V::load(p + off) * f[k];
                });
                sum.store(y + (row * s.OW + ow) * s.C + t * W);
            }
        }
    }
}

/* The gradient of stride 2: dx[ih, iw] = sum of dy[oh, ow] * w[kh, kw] with
 * 2 oh + kh - 1 = ih. An even ih meets one row of the filter, kh = 1, an odd
 * one two, kh = 0 and 2; columns alike. */
template <class T, int W>
KERNEL bwd_data2(blk b, T *dx, const T *dy, const T *w, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, s.C / W);
    const int64_t image = (int64_t)s.OH * s.OW * s.C;

    for (int64_t row : b.share((int64_t)s.N * s.H)) {
        int ih = (int)(row % s.H);
        for (int64_t t : lay.cols(s.C / W)) {
            const T *img = dy + row / s.H * image + t * W;
            V f[9];
            UNROLL for (int k = 0; k < 9; k++)
                f[k] = V::load(w + k * s.C + t * W);
            for (int64_t iw : lay.rows({0, s.W, 1})) {
                V sum = V::of(0);
                const int64_t at = iw / 2 * s.C;
                UNROLL for (int kh = 0; kh < 3; kh++)
                {
                    int oh = (ih + 1 - kh) / 2;
                    if (((ih + kh) & 1) == 0 || oh >= s.OH)
                        continue;
                    const T *p = img + (int64_t)oh * s.OW * s.C + at;
                    if ((iw & 1) == 0) {
                        sum += V::load(p) * f[kh * 3 + 1];
                        continue;
                    }
                    sum += V::load(p) * f[kh * 3 + 2];
                    if (iw / 2 + 1 < s.OW)
                        sum += V::load(p + s.C) * f[kh * 3];
                }
                sum.store(dx + (row * s.W + iw) * s.C + t * W);
            }
        }
    }
}

template <class T, int W>
KERNEL bwd_filter(blk b, double *part, const T *dy, const T *x, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const int64_t image = (int64_t)s.H * s.W * s.C;

    columns<T, W, 9>(
        b, part, (int64_t)s.N * s.OH, s.C, CHUNK_ROWS, true,
        [=](int64_t c) {
            return [=](V *sums, int64_t row) {
                int h0 = (int)(row % s.OH) * s.stride - 1;
                const T *img = x + row / s.OH * image + c;
                const T *g = dy + row * s.OW * s.C + c;
                for (int ow = 0; ow < s.OW; ow++) {
                    int w0 = ow * s.stride - 1;
                    const T *p = img + ((int64_t)h0 * s.W + w0) * s.C;
                    V gv = V::load(g + (int64_t)ow * s.C);
                    window(s, h0, w0, [&](int k, int64_t off) {
                        sums[k] += gv * V::load(p + off);
                    });
                }
            };
        });
}

/* u where the taps are: x, or its norm. */
template <class T, int W>
KERNEL fwd_normed(blk b, T *z, const T *x, norm_of<T> in, const T *w, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, s.C / W);
    const int64_t image = (int64_t)s.H * s.W * s.C;

    for (int64_t row : b.share((int64_t)s.N * s.OH)) {
        int h0 = (int)(row % s.OH) * s.stride - 1;
        for (int64_t t : lay.cols(s.C / W)) {
            const T *img = x + row / s.OH * image + t * W;
            const norm_cols<T, W> p(in, t * W);
            V f[9];
            UNROLL for (int k = 0; k < 9; k++) f[k] =
                V::load(w + k * s.C + t * W);
            for (int64_t ow : lay.rows({0, s.OW, 1})) {
                int w0 = (int)ow * s.stride - 1;
                const T *at = img + ((int64_t)h0 * s.W + w0) * s.C;
                V sum = V::of(0);
                window(s, h0, w0, [&](int k, int64_t off) {
                    sum += p.u(V::load(at + off)) * f[k];
                });
                sum.store(z + (row * s.OW + ow) * s.C + t * W);
            }
        }
    }
}

template <class T, int W>
KERNEL bwd_filter_normed(blk b, double *part, const T *dz, const T *x,
                         norm_of<T> in, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const int64_t image = (int64_t)s.H * s.W * s.C;

    columns<T, W, 9>(
        b, part, (int64_t)s.N * s.OH, s.C, CHUNK_ROWS, true,
        [=](int64_t c) {
            const norm_cols<T, W> p(in, c);
            return [=](V *sums, int64_t row) {
                int h0 = (int)(row % s.OH) * s.stride - 1;
                const T *img = x + row / s.OH * image + c;
                const T *g = dz + row * s.OW * s.C + c;
                for (int ow = 0; ow < s.OW; ow++) {
                    int w0 = ow * s.stride - 1;
                    const T *at = img + ((int64_t)h0 * s.W + w0) * s.C;
                    V gv = V::load(g + (int64_t)ow * s.C);
                    window(s, h0, w0, [&](int k, int64_t off) {
                        sums[k] += gv * p.u(V::load(at + off));
                    });
                }
            };
        });
}

/* A few pixels of z that lie `apart`: what the origin is made from. */
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

/* Threads of the host, or blocks that sum on a GPU. */
int64_t dw_parts(struct device *d, const struct conv3 *s)
{
    return parts_for(d, outputs(s) * 4, (int64_t)s->N * s->OH);
}

template <class T>
int dw_fwd(struct device *d, void *z, const struct norm_stats *stats,
            const void *x, const struct norm *in, const void *w,
            const struct conv3 *s, struct error *err)
{
    typedef acc<T> A;
    const norm_of<T> nx(in);
    const T *X = (const T *)x, *F = (const T *)w;
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("dw_fwd", s, err) < 0)
        return -1;
    if (stats && rows < 2)
        return error_set(err, ERR_INVAL, "dw_fwd: statistics of %lld rows",
                         (long long)rows);
    const int64_t parts = dw_parts(d, s), few = origin_rows(rows);
#ifdef EXEC_CUDA
    const int64_t room = 0;
#else
    const int64_t room = parts * dw_room(s);
#endif
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
        launch(d, blocks(d, 2 * parts * C), clear<double>, part,
               2 * parts * C);
    }
    double *sums = stats ? part : nullptr;
#ifdef EXEC_CUDA
    const int64_t grid = blocks(d, outputs(s) * 4, (int64_t)s->N * s->OH);
    if (nx.mean)
        LAUNCH_ROWS(C, grid, fwd_normed, (T *)z, X, nx, F, *s);
    else
        LAUNCH_ROWS(C, grid, fwd, (T *)z, X, F, *s, 0);
    if (stats)
        LAUNCH_ROWS(C, parts, norm_sums, sums, (const T *)z, (const A *)origin,
                    rows, C);
#else
    A *lines = (A *)((double *)few_z + doubles<work<T>>(few * C));
    launch(d, blocks(d, parts), clear_zeros<A>, lines, parts, dw_room(s),
           (int64_t)s->W * C);
    LAUNCH_ROWS(C, parts, dw_rows_fwd, (T *)z, X, nx, F, *s, lines, sums,
                (const A *)origin);
#endif
    if (stats)
        launch(d, blocks(d, C), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, parts, rows, C);
    return finish(d, "dw_fwd", err);
}

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
    const int64_t in_rows = (int64_t)s->N * s->H * s->W;

    if (check("dw_bwd", s, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s);
    double *part =
        scratch<double>(d, 11 * parts * C + doubles<T>(rows * C), err);
    if (!part)
        return -1;
    double *gates = part + 9 * parts * C;
    T *dz = (T *)(part + 11 * parts * C);
    LAUNCH_ROWS(C, blocks(d, rows * C, rows), norm_dz, dz, (const T *)dn,
                (const T *)z, norm_of<T>(norm), (const A *)sums,
                1 / (A)rows, rows, C);
    const int64_t grid = blocks(d, outputs(s) * 4, (int64_t)s->N * s->H);
    if (s->stride == 1) /* a convolution with the turned filter */
        LAUNCH_ROWS(C, grid, fwd, (T *)dx, (const T *)dz, (const T *)w, *s, 1);
    else
        LAUNCH_ROWS(C, grid, bwd_data2, (T *)dx, (const T *)dz, (const T *)w,
                    *s);
    if (nx.mean) {
        launch(d, blocks(d, 2 * parts * C), clear<double>, gates,
               2 * parts * C);
        LAUNCH_ROWS(C, parts, norm_gate, gates, (T *)dx, (const T *)nullptr,
                    (const T *)x, nx, in_rows, C);
        launch(d, blocks(d, 2 * C), norm_fold<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)gates, parts,
               C);
        LAUNCH_ROWS(C, parts, bwd_filter_normed, part, (const T *)dz,
                    (const T *)x, nx, *s);
    } else {
        LAUNCH_ROWS(C, parts, bwd_filter, part, (const T *)dz, (const T *)x,
                    *s);
    }
    launch(d, blocks(d, 9 * C), fold<T>, (T *)dw, (const double *)part, parts,
           9 * C);
    return finish(d, "dw_bwd", err);
}
#else
template <class T>
int dw_bwd(struct device *d, void *dx, void *dw, const struct norm_grad *out,
            const void *dn, const void *z, const struct norm *norm,
            const void *sums, const void *x, const struct norm *in,
            const void *w, const struct conv3 *s, struct error *err)
{
    typedef acc<T> A;
    const int64_t C = s->C, rows = (int64_t)s->N * s->OH * s->OW;

    if (check("dw_bwd", s, err) < 0)
        return -1;
    const int64_t parts = dw_parts(d, s), room = parts * dw_room(s);
    double *part =
        scratch<double>(d, 11 * parts * C + doubles<A>(9 * parts * C) +
                               doubles<A>(room),
                        err);
    if (!part)
        return -1;
    A *dws = (A *)(part + 11 * parts * C);
    A *lines = (A *)((double *)dws + doubles<A>(9 * parts * C));
    launch(d, blocks(d, 11 * parts * C), clear<double>, part, 11 * parts * C);
    launch(d, blocks(d, 9 * parts * C), clear<A>, dws, 9 * parts * C);
    launch(d, blocks(d, parts), clear_zeros<A>, lines, parts, dw_room(s),
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
    return finish(d, "dw_bwd", err);
}
#endif

} // namespace

FAMILY(depthwise)
{
    ops->dw_fwd = BY_TYPE(dw_fwd);
    ops->dw_bwd = BY_TYPE(dw_bwd);
}
