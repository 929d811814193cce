/* image.cu - images in: resize and normalise; patches of the first layer.
 */
#include "kernels/exec_launch.h"

namespace
{

/* Where output i of S falls among n inputs, with half-pixel centres. */
template <class A> struct tap {
    int lo, hi;
    A frac;

    FN tap(int i, int n, int S)
    {
        A at = ((A)i + (A)0.5) * ((A)n / (A)S) - (A)0.5;
        at = at > 0 ? at : 0;
        lo = (int)at;
        lo = lo < n - 1 ? lo : n - 1;
        hi = lo + 1 < n ? lo + 1 : lo;
        frac = at - (A)lo;
    }
};

template <class T>
KERNEL resize(blk b, T *x, const uint8_t *img, int H, int W, int S, int C,
              int64_t rows, acc<T> scale, acc<T> shift)
{
    typedef acc<T> A;

    for (int64_t row : b.share(rows)) {
        const tap<A> v((int)(row % S), H, S);
        const uint8_t *top = img + (row / S * H + v.lo) * W;
        const uint8_t *low = img + (row / S * H + v.hi) * W;
        for (int64_t ox : b.lanes(S)) {
            const tap<A> h((int)ox, W, S);
            A a = (A)top[h.lo] + h.frac * ((A)top[h.hi] - (A)top[h.lo]);
            A z = (A)low[h.lo] + h.frac * ((A)low[h.hi] - (A)low[h.lo]);
            T value = (T)((a + v.frac * (z - a)) * scale - shift);
            for (int c = 0; c < C; c++)
                x[(row * S + ox) * C + c] = value;
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
int resize_u8(struct device *d, void *x, const uint8_t *img, int32_t N,
              int32_t H, int32_t W, int32_t S, int32_t C, double mean,
              double std, struct error *err)
{
    if (N < 1 || H < 1 || W < 1 || S < 1 || C < 1 || !(std > 0))
        return error_set(err, ERR_INVAL,
                         "resize_u8: [%d, %d, %d] to %d x %d, std %g", (int)N,
                         (int)H, (int)W, (int)S, (int)C, std);
    int64_t rows = (int64_t)N * S;
    launch(d, blocks(d, rows * S * C, rows), resize<T>, (T *)x, img, (int)H,
           (int)W, (int)S, (int)C, rows, (acc<T>)(1 / (255 * std)),
           (acc<T>)(mean / std));
    return finish(d, "resize_u8", err);
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
    ops->resize_u8 = BY_TYPE(resize_u8);
    ops->im2col3 = BY_TYPE(im2col3);
}
