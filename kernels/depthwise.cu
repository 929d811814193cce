/* depthwise.cu - depthwise 3x3 convolution, padding 1, stride 1 or 2, NHWC.
 *
 * One filter [3, 3] per channel: y[n,oh,ow,c] = sum over kh, kw of
 * x[n, oh*s + kh - 1, ow*s + kw - 1, c] * w[kh,kw,c]. There are only nine
 * multiplications per value, so memory decides: channels are the vector, the
 * nine filter values stay in registers, and a row of the image is walked
 * once. Pixels whose three columns are all inside, nearly all of them, take
 * a path without column checks.
 */
#include "kernels/exec_columns.h"
#include "kernels/exec_launch.h"

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
        b, part, (int64_t)s.N * s.OH, s.C, CHUNK_ROWS,
        [=](V *sums, int64_t row, int64_t c) {
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

template <class T>
int dw3_fwd(struct device *d, void *y, const void *x, const void *w,
            const struct conv3 *s, struct error *err)
{
    if (check("dw3_fwd", s, err) < 0)
        return -1;
    LAUNCH_ROWS(s->C, blocks(d, outputs(s) * 4, (int64_t)s->N * s->OH), fwd,
                (T *)y, (const T *)x, (const T *)w, *s, 0);
    return finish(d, "dw3_fwd", err);
}

template <class T>
int dw3_bwd_data(struct device *d, void *dx, const void *dy, const void *w,
                 const struct conv3 *s, struct error *err)
{
    if (check("dw3_bwd_data", s, err) < 0)
        return -1;
    int64_t grid = blocks(d, outputs(s) * 4, (int64_t)s->N * s->H);
    if (s->stride == 1) /* a convolution with the turned filter */
        LAUNCH_ROWS(s->C, grid, fwd, (T *)dx, (const T *)dy, (const T *)w, *s,
                    1);
    else
        LAUNCH_ROWS(s->C, grid, bwd_data2, (T *)dx, (const T *)dy,
                    (const T *)w, *s);
    return finish(d, "dw3_bwd_data", err);
}

template <class T>
int dw3_bwd_filter(struct device *d, void *dw, const void *dy, const void *x,
                   const struct conv3 *s, struct error *err)
{
    if (check("dw3_bwd_filter", s, err) < 0)
        return -1;
    int64_t n = 9 * (int64_t)s->C;
    int64_t parts = parts_for(d, outputs(s) * 4, (int64_t)s->N * s->OH);
    double *part = scratch<double>(d, parts * n, err);
    if (!part)
        return -1;
    LAUNCH_ROWS(s->C, parts, bwd_filter, part, (const T *)dy, (const T *)x,
                *s);
    launch(d, blocks(d, n), fold<T>, (T *)dw, (const double *)part, parts, n);
    return finish(d, "dw3_bwd_filter", err);
}

} // namespace

FAMILY(depthwise)
{
    ops->dw3_fwd = BY_TYPE(dw3_fwd);
    ops->dw3_bwd_data = BY_TYPE(dw3_bwd_data);
    ops->dw3_bwd_filter = BY_TYPE(dw3_bwd_filter);
}
