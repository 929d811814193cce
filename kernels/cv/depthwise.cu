/* depthwise.cu - depthwise 3x3 convolution, padding 1, stride 1 or 2, NHWC.
 *
 * One filter [3, 3] per channel: y[n,oh,ow,c] = sum over kh, kw of
 * x[n, oh*s + kh - 1, ow*s + kw - 1, c] * w[kh,kw,c]. There are only nine
 * multiplications per value, so the kernel is memory-bound: a vector holds
 * neighbouring channels, the nine filter values stay in registers, and each
 * row of the image is read once. Pixels whose three columns are all inside the
 * image, nearly all of them, take a path without column checks. */
#include "kernels/exec/exec_norm.h"
#ifndef EXEC_CUDA
#include "kernels/cv/depthwise_rows.h"
#endif

namespace
{

/* A lane keeps nine filter values, a norm and the sums of a filter's gradient
 * per channel. At 8 channels a lane, which is 16 bytes of a 16-bit type, that
 * takes 168 registers, and a multiprocessor holds one block of 256 lanes; at 4
 * channels it takes about 100, and the multiprocessor holds two blocks, which
 * hide each other's memory latency. */
#ifdef EXEC_CUDA
template <class T> constexpr int most = widest<T> < 4 ? widest<T> : 4;
#define LAUNCH_TAPS(n, grid, kernel, ...)                                  \
    do {                                                                   \
        int w_ = width_of<T>((n), __VA_ARGS__);                            \
        if (w_ >= most<T>)                                                 \
            launch(d, (grid), kernel<T, most<T>>, __VA_ARGS__);            \
        else if (w_ == HALF_OF(widest<T>))                                 \
            launch(d, (grid), kernel<T, HALF_OF(widest<T>)>, __VA_ARGS__); \
        else                                                               \
            launch(d, (grid), kernel<T, 1>, __VA_ARGS__);                  \
    } while (0)
#else
#define LAUNCH_TAPS LAUNCH_ROWS
#endif

/* Rows of the image whose filter gradients are summed in registers before they
 * are added to memory. */
enum { CHUNK_ROWS = 16 };

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

/* With `turned`, reads the filter from its last tap to its first. */
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
 * one two, kh = 0 and 2; columns alike. img is dy's image at the column. */
template <class T, int W>
FN vec<acc<T>, W> back2(const T *img, int ih, int iw, const vec<acc<T>, W> *f,
                        const conv3 &s)
{
    typedef vec<acc<T>, W> V;
    const int64_t at = (int64_t)(iw / 2) * s.C;
    V sum = V::of(0);

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
    return sum;
}

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
            for (int64_t iw : lay.rows({0, s.W, 1}))
                back2<T, W>(img, ih, (int)iw, f, s)
                    .store(dx + (row * s.W + iw) * s.C + t * W);
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
            return by_row([=](V *sums, int64_t row, int) {
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
            });
        });
}

/* u at the taps: x, or its norm. */
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
KERNEL_OF_TWO bwd_filter_normed(blk b, double *part, const T *dz, const T *x,
                         norm_of<T> in, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const int64_t image = (int64_t)s.H * s.W * s.C;

    columns<T, W, 9>(
        b, part, (int64_t)s.N * s.OH, s.C, CHUNK_ROWS, true,
        [=](int64_t c) {
            const norm_cols<T, W> p(in, c);
            return by_row([=](V *sums, int64_t row, int) {
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
            });
        });
}

#ifdef EXEC_CUDA
/* ---- with sums, for a GPU --------------------------------------------------
 * columns() treats a pixel as a row of [rows, C] and sums values that were just
 * computed, without reading them again. */
struct pixel {
    int64_t n;
    int h, w;
    FN pixel(int64_t i, int H, int W)
    {
        const int64_t line = i / W;
        w = (int)(i - line * W);
        n = line / H;
        h = (int)(line - n * H);
    }
};

/* The value as it will be read again: sum what is stored, not what was
 * computed. */
template <class T, int W> FN vec<acc<T>, W> as_stored(vec<acc<T>, W> v)
{
    UNROLL for (int k = 0; k < W; k++) v.v[k] = (acc<T>)(T)v.v[k];
    return v;
}

/* z, and its sums about the origin and of their squares. */
template <class T, int W>
KERNEL_OF_TWO fwd_summed(blk b, double *part, T *z, const T *x, norm_of<T> in,
                  const T *w, const acc<T> *origin, conv3 s)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 2>(
        b, part, (int64_t)s.N * s.OH * s.OW, s.C, SUM_ROWS, true,
        [=](int64_t c) {
            const norm_cols<T, W> p(in, c);
            const V o = V::load(origin + c);
            V f[9];
            UNROLL for (int k = 0; k < 9; k++) f[k] = V::load(w + k * s.C + c);
            return by_row([=](V *sums, int64_t r, int) {
                const pixel at(r, s.OH, s.OW);
                int h0 = at.h * s.stride - 1, w0 = at.w * s.stride - 1;
                const T *from =
                    x + ((at.n * s.H + h0) * s.W + w0) * (int64_t)s.C + c;
                V v = V::of(0);
                window(s, h0, w0, [&](int k, int64_t off) {
                    v += p.u(V::load(from + off)) * f[k];
                });
                v.store(z + r * s.C + c);
                v = as_stored<T, W>(v) - o;
                sums[0] += v;
                sums[1] += v * v;
            });
        });
}

/* dx after the gate of the preceding norm, and the sums for that norm's
 * gradients. */
template <class T, int W>
KERNEL_OF_TWO bwd_data_gated(blk b, double *part, T *dx, const T *dz, const T *w,
                      const T *x, norm_of<T> in, conv3 s)
{
    typedef vec<acc<T>, W> V;
    typedef typename V::template raw<T> raw;

    columns<T, W, 2>(
        b, part, (int64_t)s.N * s.H * s.W, s.C, SUM_ROWS, true,
        [=](int64_t c) {
            const norm_cols<T, W> p(in, c);
            V f[9];
            UNROLL for (int k = 0; k < 9; k++) f[k] = V::load(w + k * s.C + c);
            auto load = [=](int64_t r) { return V::hold(x + r * s.C + c); };
            return by_row<2>(load, [=](V *sums, int64_t r, raw held) {
                const pixel at(r, s.H, s.W);
                const T *img = dz + at.n * s.OH * s.OW * s.C + c;
                V v = V::of(0);
                if (s.stride == 2) {
                    v = back2<T, W>(img, at.h, at.w, f, s);
                } else { /* a convolution with the turned filter */
                    const T *from =
                        img + ((int64_t)(at.h - 1) * s.W + at.w - 1) * s.C;
                    window(s, at.h - 1, at.w - 1, [&](int k, int64_t off) {
                        v += V::load(from + off) * f[8 - k];
                    });
                }
                V h = p.hat(V::open(held));
                v = as_stored<T, W>(p.gate(v, h));
                v.store(dx + r * s.C + c);
                sums[0] += v * h;
                sums[1] += v;
            });
        });
}
#endif

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

    if (check("3x3 convolution", s, err) < 0)
        return -1;
    if (stats && rows < 2)
        return error_set(err, ERR_INVAL,
                         "3x3 convolution: statistics of %lld rows",
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
        LAUNCH_TAPS(C, blocks(d, few * C, few), sample, few_z, X, nx, F, *s,
                    few, rows / few);
        launch(d, blocks(d, few * C, C), norm_origin<T, work<T>>, origin,
               (const work<T> *)few_z, few, (int64_t)1, C);
    }
#ifdef EXEC_CUDA
    const bool at_once = stats && nx.mean;
#else
    const bool at_once = false; /* dw_rows_fwd adds to them row by row */
#endif
    if (stats && !at_once && !at_one_go)
        launch(d, blocks(d, 2 * parts * C), clear<double>, part,
               2 * parts * C);
    double *sums = stats ? part : nullptr;
#ifdef EXEC_CUDA
    const int64_t grid = blocks(d, outputs(s) * 4, (int64_t)s->N * s->OH);
    if (at_once)
        LAUNCH_TAPS(C, parts, fwd_summed, sums, (T *)z, X, nx, F,
                    (const A *)origin, *s);
    else if (nx.mean)
        LAUNCH_TAPS(C, grid, fwd_normed, (T *)z, X, nx, F, *s);
    else
        LAUNCH_TAPS(C, grid, fwd, (T *)z, X, F, *s, 0);
    if (stats && !at_once)
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
        launch(d, fold_blocks(d, C), norm_finish<T>, stats_of<T>(stats),
               (const A *)origin, (const double *)part, parts, rows, C);
    return finish(d, "3x3 convolution", err);
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

    if (check("3x3 convolution's gradient", s, err) < 0)
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
    if (nx.mean) {
        LAUNCH_TAPS(C, parts, bwd_data_gated, gates, (T *)dx, (const T *)dz,
                    (const T *)w, (const T *)x, nx, *s);
        launch(d, fold_blocks(d, 2 * C), norm_fold<T>, (A *)out->sums,
               (T *)out->dgamma, (T *)out->dbeta, (const double *)gates, parts,
               C);
        LAUNCH_TAPS(C, parts, bwd_filter_normed, part, (const T *)dz,
                    (const T *)x, nx, *s);
    } else {
        if (s->stride == 1) /* a convolution with the turned filter */
            LAUNCH_TAPS(C, grid, fwd, (T *)dx, (const T *)dz, (const T *)w, *s,
                        1);
        else
            LAUNCH_TAPS(C, grid, bwd_data2, (T *)dx, (const T *)dz,
                        (const T *)w, *s);
        LAUNCH_TAPS(C, parts, bwd_filter, part, (const T *)dz, (const T *)x,
                    *s);
    }
    launch(d, fold_blocks(d, 9 * C), fold<T>, (T *)dw, (const double *)part, parts,
           9 * C);
    return finish(d, "3x3 convolution's gradient", err);
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

    if (check("3x3 convolution's gradient", s, err) < 0)
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
    return finish(d, "3x3 convolution's gradient", err);
}
#endif

} // namespace

FAMILY(depthwise)
{
    ops->dw_fwd = BY_TYPE(dw_fwd);
    ops->dw_bwd = BY_TYPE(dw_bwd);
}
