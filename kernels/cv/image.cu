/* image.cu - image kernels: resize and normalise; channels that are planes to
 * channels that are neighbours; patches for the first layer. */
#include "kernels/exec/exec_launch.h"
#include "kernels/cv/image_u8.h"

namespace
{

/* The inputs that contribute to one output along one axis. lo and hi are
 * clamped to the stored inputs: rounded differently than on the host, they may
 * include one beyond, whose weight is 0. Distances are whole numbers, and exact
 * in A below 2^24. */
template <class A> struct taps {
    int lo, hi;
    A first, step, most; /* distance of input lo, to the next, and at which
                          * the weight is 0 */

    FN taps(const image_axis &a)
        : lo(0), hi(0), first(0), step((A)(2 * (int64_t)a.to)),
          most((A)(2 * (int64_t)(a.n > a.to ? a.n : a.to)))
    {
    }
    FN taps(const image_axis &a, int out, int from, int stored) : taps(a)
    {
        image_taps(&a, out, &lo, &hi);
        lo = lo > from ? lo : from;
        hi = hi < from + stored ? hi : from + stored;
        first = (A)image_apart(&a, out, lo);
    }
    FN A weight(A apart) const
    {
        A w = most - (apart < 0 ? -apart : apart);
        return w > 0 ? w : 0;
    }
    FN A total() const
    {
        A sum = 0, apart = first;
        for (int j = lo; j < hi; j++, apart += step)
            sum += weight(apart);
        return sum;
    }
};

/* Per channel, as v * scale - shift. */
template <class A> struct affine {
    A scale[IMAGE_CHANNELS], shift[IMAGE_CHANNELS];
};

/* C channels of a pixel from K stored ones; K is 1 or C. src: at the first tap,
 * in rows of `pitch` bytes. */
template <int K, class T>
FN void pixel(T *out, const uint8_t *src, int64_t pitch,
              const taps<acc<T>> &v, acc<T> v_total, const taps<acc<T>> &h,
              acc<T> h_total, const affine<acc<T>> &to, int C)
{
    typedef acc<T> A;
    A sum[K] = {}, down = v.first;

    for (int y = v.lo; y < v.hi; y++) {
        const uint8_t *p = src;
        A wy = v.weight(down) / v_total, part[K] = {};
        A across = h.first;
        for (int x = h.lo; x < h.hi; x++, p += K) {
            A w = h.weight(across);
            UNROLL for (int k = 0; k < K; k++) part[k] += w * (A)p[k];
            across += h.step;
        }
        UNROLL for (int k = 0; k < K; k++) sum[k] += wy * part[k];
        down += v.step;
        src += pitch;
    }
    UNROLL for (int c = 0; c < IMAGE_CHANNELS; c++)
    {
        if (c < C)
            out[c] = (T)(sum[K > 1 ? c : 0] / h_total * to.scale[c] -
                         to.shift[c]);
    }
}

/* The rows of outputs whose taps are found together: a GPU's lanes find one
 * each, and take a column each for all of them. The host goes row by row. */
enum { TAP_ROWS = MAX_LANES };

/* n of them, from output y0 of an image with K channels on. */
template <int K, class T>
FN void some_rows(blk b, T *out, const uint8_t *src, const image_u8 &m, int y0,
                  int n, int S, int C, const affine<acc<T>> &to)
{
    typedef acc<T> A;
    SHARED(int, lo, TAP_ROWS);
    SHARED(int, hi, TAP_ROWS);
    SHARED(A, first, TAP_ROWS);
    SHARED(A, total, TAP_ROWS);
    const image_axis down = image_axis_of(m.h, m.to_h);
    const image_axis along = image_axis_of(m.w, m.to_w);
    const int64_t pitch = (int64_t)m.W * K;
    const rect lay(b, S);

    for (int64_t r : b.lanes(n)) {
        const taps<A> v(down, y0 + (int)r + m.oy, m.y0, m.H);
        lo[r] = v.lo;
        hi[r] = v.hi;
        first[r] = v.first;
        total[r] = v.total();
    }
    b.sync(); /* the rows' taps are there */
    for (int64_t i : lay.cols(S)) {
        const int ox = m.flip ? S - 1 - (int)i : (int)i;
        const taps<A> h(along, ox + m.ox, m.x0, m.W);
        const uint8_t *from = src + m.at + (h.lo - m.x0) * K;
        const A h_total = h.total();
        taps<A> v(down);
        for (int64_t r : lay.rows({0, n, 1})) {
            v.lo = lo[r];
            v.hi = hi[r];
            v.first = first[r];
            pixel<K>(out + (r * S + i) * C, from + (v.lo - m.y0) * pitch,
                     pitch, v, total[r], h, h_total, to, C);
        }
    }
    b.sync(); /* the rows' taps are free */
}

template <class T>
KERNEL resize(blk b, T *x, const uint8_t *src, const image_u8 *list, int S,
              int C, int64_t rows, affine<acc<T>> to)
{
    const range mine = b.share(rows);

    for (int64_t at = mine.lo; at < mine.hi;) {
        const int64_t image = at / S;
        const int y0 = (int)(at - image * S);
        const int left = mine.hi - at < S - y0 ? (int)(mine.hi - at) : S - y0;
        const int n = TAP_ROWS == 1 || left > TAP_ROWS ? (int)TAP_ROWS : left;
        const image_u8 m = list[image];
        T *out = x + at * S * C;
        if (m.C == 0)
            for (int64_t i : b.lanes((int64_t)n * S * C))
                out[i] = (T)0;
        else if (m.C == 1)
            some_rows<1>(b, out, src, m, y0, n, S, C, to);
        else
            some_rows<IMAGE_CHANNELS>(b, out, src, m, y0, n, S, C, to);
        at += n;
    }
}

/* V is an unsigned type of the size of the values, which are only moved. */
template <class V>
KERNEL interleave(blk b, V *y, const V *x, const image_u8 *list, int64_t items,
                  int64_t parts, int64_t pixels, int C)
{
    for (int64_t item : b.share(items)) {
        int64_t n = item / parts, part = item % parts, at = n * pixels * C;
        int channels = C;
        if (list) {
            pixels = (int64_t)list[n].H * list[n].W;
            channels = list[n].C;
            at = list[n].at;
        }
        int64_t lo = pixels * part / parts, hi = pixels * (part + 1) / parts;
        const V *from = x + at + lo;
        V *to = y + at + lo * channels;
        for (int64_t i : b.lanes(hi - lo))
            for (int c = 0; c < channels; c++)
                to[i * channels + c] = from[c * pixels + i];
    }
}

#ifdef EXEC_CUDA
/* A lane makes W columns of the patches of a line and stores them as one vector.
 * Column k is one of the 3 * C neighbours that a patch has in each of three
 * lines of the image. */
enum { NOWHERE = -(1 << 30) };
template <class T, int W>
KERNEL patches(blk b, T *col, int64_t ld, const T *x, conv3 s)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, ld / W);
    const int line = s.W * s.C, tap = 3 * s.C;

    for (int64_t row : b.share((int64_t)s.N * s.OH)) {
        const int64_t image = row / s.OH;
        const int h0 = (int)(row - image * s.OH) * s.stride - 1;
        const int top = h0 < 0 ? 0 : h0;
        const T *from = x + (image * s.H + top) * line;
        T *to = col + row * s.OW * ld;
        for (int64_t t : lay.cols(ld / W)) {
            int at[W], below[W]; /* in its line, of the patch at 0; the line */
            UNROLL for (int e = 0; e < W; e++)
            {
                const int k = (int)t * W + e, kh = k / tap;
                const bool in = kh < 3 && h0 + kh >= 0 && h0 + kh < s.H;
                below[e] = (h0 + kh - top) * line;
                at[e] = in ? k - kh * tap - s.C : (int)NOWHERE;
            }
            for (int64_t ow : lay.rows({0, s.OW, 1})) {
                typename V::template raw<T> m;
                UNROLL for (int e = 0; e < W; e++)
                {
                    const int i = (int)ow * s.stride * s.C + at[e];
                    m.e[e] = i >= 0 && i < line ? from[below[e] + i] : (T)0;
                }
                V::put(to + ow * ld + t * W, m);
            }
        }
    }
}
#else
template <class T>
KERNEL patches(blk b, T *col, int64_t ld, const T *x, conv3 s)
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
                T *out = col + (row * s.OW + ow) * ld + k * s.C;
                const T *p = img + ((int64_t)h * s.W + w) * s.C;
                for (int c = 0; c < s.C; c++)
                    out[c] = in ? p[c] : (T)0;
            }
        for (int64_t i = 0; i < s.OW && ld > 9 * s.C; i++)
            for (int64_t c = 9 * s.C; c < ld; c++)
                col[(row * s.OW + i) * ld + c] = (T)0;
    }
}
#endif

template <class T>
KERNEL pad(blk b, T *y, int64_t to, const T *x, int64_t from, int64_t n)
{
    for (int64_t i : b.each(n)) {
        const int64_t c = i % to;
        y[i] = c < from ? x[i / to * from + c] : (T)0;
    }
}

template <class T>
int images_u8(struct device *d, void *x, const uint8_t *src,
              const struct image_u8 *list, int32_t N, int32_t S, int32_t C,
              const struct image_norm *norm, struct error *err)
{
    affine<acc<T>> to = {};

    if (N < 1 || S < 1 || (C != 1 && C != IMAGE_CHANNELS))
        return error_set(err, ERR_INVAL, "resizing: %d images to [%d, %d, %d]",
                         (int)N, (int)S, (int)S, (int)C);
    for (int c = 0; c < C; c++) {
        if (!(norm->std[c] > 0))
            return error_set(err, ERR_INVAL, "resizing: std[%d] is %g", c,
                             norm->std[c]);
        to.scale[c] = (acc<T>)(1 / (255 * norm->std[c]));
        to.shift[c] = (acc<T>)(norm->mean[c] / norm->std[c]);
    }
    int64_t rows = (int64_t)N * S;
    launch(d, blocks(d, rows * S * C, rows), resize<T>, (T *)x, src, list,
           (int)S, (int)C, rows, to);
    return finish(d, "resizing", err);
}

template <class V>
int interleave_all(struct device *d, void *y, const void *x,
                   const struct image_u8 *list, int32_t N, int64_t pixels,
                   int32_t C, struct error *err)
{
    const int64_t part = 2048; /* pixels: several of each lane */
    const int64_t parts = (pixels - 1) / part + 1;
    launch(d, blocks(d, N * pixels * C, N * parts), interleave<V>, (V *)y,
           (const V *)x, list, N * parts, parts, pixels, (int)C);
    return finish(d, "from planes to pixels", err);
}

int nchw_to_nhwc(struct device *d, size_t size, void *y, const void *x,
                 const struct image_u8 *list, int32_t N, int64_t pixels,
                 int32_t C, struct error *err)
{
    C = list ? IMAGE_CHANNELS : C;
    if (N < 1 || pixels < 1 || (C != 1 && C != IMAGE_CHANNELS) ||
        (list && size != 1))
        return error_set(err, ERR_INVAL,
                         "from planes to pixels: %d images of %lld pixels, "
                         "%d channels, %zu bytes a value",
                         (int)N, (long long)pixels, (int)C, size);
    switch (size) {
    case 1:
        return interleave_all<uint8_t>(d, y, x, list, N, pixels, C, err);
    case 2:
        return interleave_all<uint16_t>(d, y, x, list, N, pixels, C, err);
    case 4:
        return interleave_all<uint32_t>(d, y, x, list, N, pixels, C, err);
    case 8:
        return interleave_all<uint64_t>(d, y, x, list, N, pixels, C, err);
    }
    return error_set(err, ERR_INVAL,
                     "from planes to pixels: values of %zu bytes", size);
}

template <class T>
int im2col3(struct device *d, void *col, int32_t ld, const void *x,
            const struct conv3 *s, struct error *err)
{
    bool sizes = s->N > 0 && s->H > 0 && s->W > 0 && s->C > 0;
    bool stride = s->stride == 1 || s->stride == 2;

    if (!sizes || !stride || s->OH != (s->H - 1) / s->stride + 1 ||
        s->OW != (s->W - 1) / s->stride + 1)
        return error_set(err, ERR_INVAL,
                         "stem's patches: [%d, %d, %d, %d] to [%d, %d], "
                         "stride %d",
                         s->N, s->H, s->W, s->C, s->OH, s->OW, s->stride);
    if (ld / 9 < s->C)
        return error_set(err, ERR_INVAL,
                         "stem's patches: %d columns for 9 * %d values", ld,
                         s->C);
    int64_t rows = (int64_t)s->N * s->OH, n = ld;
    int64_t grid = blocks(d, rows * s->OW * n, rows);
#ifdef EXEC_CUDA
    /* Only what is stored is in vectors. */
    if (n % widest<T> == 0 && bits_of((T *)col) % VEC_BYTES == 0)
        launch(d, grid, patches<T, widest<T>>, (T *)col, n, (const T *)x, *s);
    else
        launch(d, grid, patches<T, 1>, (T *)col, n, (const T *)x, *s);
#else
    launch(d, grid, patches<T>, (T *)col, n, (const T *)x, *s);
#endif
    return finish(d, "stem's patches", err);
}

template <class T>
int pad_rows(struct device *d, void *y, int32_t to, const void *x, int32_t from,
             int64_t rows, struct error *err)
{
    if (rows < 1 || to < 1 || from < 1)
        return error_set(err, ERR_INVAL,
                         "padding: %lld rows of %d columns to %d",
                         (long long)rows, from, to);
    launch(d, blocks(d, rows * to), pad<T>, (T *)y, (int64_t)to, (const T *)x,
           (int64_t)from, rows * to);
    return finish(d, "padding", err);
}

} // namespace

FAMILY(image)
{
    ops->images_u8 = BY_TYPE(images_u8);
    ops->nchw_to_nhwc = nchw_to_nhwc;
    ops->im2col3 = BY_TYPE(im2col3);
    ops->pad_rows = BY_TYPE(pad_rows);
}
