/* image.cu - images in: resize and normalise; patches of the first layer.
 */
#include "kernels/exec_launch.h"
#include "kernels/image_u8.h"

namespace
{

/* What weighs in one output along one axis, in parts of the whole. lo and hi
 * are kept to the stored inputs: rounded another way than on the host, they
 * may name one beyond, whose weight is 0. */
template <class A> struct taps {
    int i, n, to, lo, hi;
    A per; /* 1 / sum of the weights */

    FN taps(int out, int n_, int to_, int from, int stored)
        : i(out), n(n_), to(to_)
    {
        image_taps(i, n, to, &lo, &hi);
        lo = lo > from ? lo : from;
        hi = hi < from + stored ? hi : from + stored;
        A sum = 0;
        for (int j = lo; j < hi; j++)
            sum += (A)image_weight(j, i, n, to);
        per = 1 / sum;
    }
    FN A weight(int j) const
    {
        return (A)image_weight(j, i, n, to) * per;
    }
};

/* Per channel, as v * scale - shift. */
template <class A> struct affine {
    A scale[IMAGE_CHANNELS], shift[IMAGE_CHANNELS];
};

/* sum[K] of one output pixel; m.C is K. */
template <int K, class A>
FN void filter(A *sum, const uint8_t *src, const image_u8 &m, const taps<A> &v,
               const taps<A> &h)
{
    for (int k = 0; k < K; k++)
        sum[k] = 0;
    for (int y = v.lo; y < v.hi; y++) {
        int64_t first = (int64_t)(y - m.y0) * m.W + (h.lo - m.x0);
        const uint8_t *p = src + m.at + first * K;
        A wy = v.weight(y);
        for (int x = h.lo; x < h.hi; x++, p += K) {
            A w = wy * h.weight(x);
            for (int k = 0; k < K; k++)
                sum[k] += w * (A)p[k];
        }
    }
}

/* C channels of a pixel from K stored ones; K is 1 or C. */
template <int K, class T>
FN void pixel(T *out, const uint8_t *src, const image_u8 &m,
              const taps<acc<T>> &v, const taps<acc<T>> &h, int C,
              const affine<acc<T>> &to)
{
    acc<T> sum[K];

    filter<K>(sum, src, m, v, h);
    for (int c = 0; c < C; c++)
        out[c] = (T)(sum[K > 1 ? c : 0] * to.scale[c] - to.shift[c]);
}

template <class T>
KERNEL resize(blk b, T *x, const uint8_t *src, const image_u8 *list, int S,
              int C, int64_t rows, affine<acc<T>> to)
{
    typedef acc<T> A;

    for (int64_t row : b.share(rows)) {
        const image_u8 m = list[row / S];
        T *out = x + row * S * C;
        if (m.C == 0) {
            for (int64_t i : b.lanes((int64_t)S * C))
                out[i] = (T)0;
            continue;
        }
        const taps<A> v((int)(row % S) + m.oy, m.h, m.to_h, m.y0, m.H);
        for (int64_t i : b.lanes(S)) {
            int ox = m.flip ? S - 1 - (int)i : (int)i;
            const taps<A> h(ox + m.ox, m.w, m.to_w, m.x0, m.W);
            if (m.C == 1)
                pixel<1>(out + i * C, src, m, v, h, C, to);
            else
                pixel<IMAGE_CHANNELS>(out + i * C, src, m, v, h, C, to);
        }
    }
}

template <class T> KERNEL patches(blk b, T *col, const T *x, conv3 s)
{
    const rect lay(b, 9);

    for (int64_t row : b.share((int64_t)s.N * s.OH)) {
        const T *img = x + row / s.OH * s.H * s.W * s.C;
        int h0 = (int)(row % s.OH) * s.stride - 1;
        for (int64_t ow : lay.rows({0, s.OW, 1}))
            for (int64_t k : lay.cols(9)) {
                int h = h0 + (int)k / 3;
                int w = (int)ow * s.stride - 1 + (int)k % 3;
                bool in = h >= 0 && h < s.H && w >= 0 && w < s.W;
                T *out = col + ((row * s.OW + ow) * 9 + k) * s.C;
                const T *p = img + ((int64_t)h * s.W + w) * s.C;
                for (int c = 0; c < s.C; c++)
                    out[c] = in ? p[c] : (T)0;
            }
    }
}

template <class T>
int images_u8(struct device *d, void *x, const uint8_t *src,
              const struct image_u8 *list, int32_t N, int32_t S, int32_t C,
              const struct image_norm *norm, struct error *err)
{
    affine<acc<T>> to = {};

    if (N < 1 || S < 1 || (C != 1 && C != IMAGE_CHANNELS))
        return error_set(err, ERR_INVAL, "images_u8: %d images to [%d, %d, %d]",
                         (int)N, (int)S, (int)S, (int)C);
    for (int c = 0; c < C; c++) {
        if (!(norm->std[c] > 0))
            return error_set(err, ERR_INVAL, "images_u8: std[%d] is %g", c,
                             norm->std[c]);
        to.scale[c] = (acc<T>)(1 / (255 * norm->std[c]));
        to.shift[c] = (acc<T>)(norm->mean[c] / norm->std[c]);
    }
    int64_t rows = (int64_t)N * S;
    launch(d, blocks(d, rows * S * C, rows), resize<T>, (T *)x, src, list,
           (int)S, (int)C, rows, to);
    return finish(d, "images_u8", err);
}

template <class T>
int im2col3(struct device *d, void *col, const void *x, const struct conv3 *s,
            struct error *err)
{
    bool sizes = s->N > 0 && s->H > 0 && s->W > 0 && s->C > 0;
    bool stride = s->stride == 1 || s->stride == 2;

    if (!sizes || !stride || s->OH != (s->H - 1) / s->stride + 1 ||
        s->OW != (s->W - 1) / s->stride + 1)
        return error_set(err, ERR_INVAL,
                         "im2col3: [%d, %d, %d, %d] to [%d, %d], stride %d",
                         s->N, s->H, s->W, s->C, s->OH, s->OW, s->stride);
    int64_t rows = (int64_t)s->N * s->OH;
    launch(d, blocks(d, rows * s->OW * s->C * 9, rows), patches<T>, (T *)col,
           (const T *)x, *s);
    return finish(d, "im2col3", err);
}

} // namespace

FAMILY(image)
{
    ops->images_u8 = BY_TYPE(images_u8);
    ops->im2col3 = BY_TYPE(im2col3);
}
