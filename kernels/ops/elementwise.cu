/* elementwise.cu - addition, bias and its gradient, dropout; scalars.
 *
 * Dropout needs random numbers that are the same for every device, number of
 * threads and order of evaluation. A counter-based generator provides that: the
 * number for element e of the stream `seed` is a function of (seed, e) alone,
 * and the backward pass generates it again instead of storing a mask.
 *
 * Element e is word e % 4 of Philox4x32-10 with the 64-bit key `seed` and
 * the 128-bit counter e / 4, least significant word first. It is kept when
 * its word >= ceil(p * 2^32).
 *
 * src  Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy
 *      as 1, 2, 3", SC'11, section 3.3 and the constants of Random123 */
#include "kernels/exec/exec_columns.h"
#include "kernels/exec/exec_launch.h"

namespace
{

template <class T, int W> KERNEL sum_into(blk b, T *y, const T *x, int64_t n)
{
    typedef vec<acc<T>, W> V;

    for (int64_t i : b.each(n, W))
        (V::load(y + i, n - i) + V::load(x + i, n - i)).store(y + i, n - i);
}

template <class T, int W>
KERNEL add_bias(blk b, T *y, const T *bias, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const rect lay(b, C / W);

    for (int64_t r : lay.rows(b.share(rows)))
        for (int64_t t : lay.cols(C / W)) {
            T *p = y + r * C + t * W;
            (V::load(p) + V::load(bias + t * W)).store(p);
        }
}

template <class T, int W>
KERNEL bias_sums(blk b, double *part, const T *dy, int64_t rows, int64_t C)
{
    typedef vec<acc<T>, W> V;

    columns<T, W, 1>(b, part, rows, C, SUM_ROWS, true, [=](int64_t c) {
        return by_row<8>(
            [=](int64_t r) { return V::hold(dy + r * C + c); },
            [=](V *s, int64_t, const typename V::template raw<T> &m) {
                s[0] += V::open(m);
            });
    });
}

struct philox_words {
    uint32_t w[4];
};

FN philox_words philox(uint64_t key, uint64_t counter)
{
    philox_words x = {{(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0}};
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);

    UNROLL for (int round = 0; round < 10; round++)
    {
        uint64_t a = (uint64_t)0xD2511F53u * x.w[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * x.w[2];
        x = {{(uint32_t)(b >> 32) ^ x.w[1] ^ k0, (uint32_t)b,
              (uint32_t)(a >> 32) ^ x.w[3] ^ k1, (uint32_t)a}};
        k0 += 0x9E3779B9u; /* golden ratio, sqrt(3) - 1: Weyl sequences */
        k1 += 0xBB67AE85u;
    }
    return x;
}

/* A lane processes the four elements of one counter, which need not begin at y:
 * the stream is split at multiples of four, the call begins at `offset`. */
template <class T>
KERNEL drop(blk b, T *y, const T *x, int64_t n, uint64_t threshold,
            acc<T> scale, const uint64_t *seed, uint64_t offset)
{
    const uint64_t first = offset / 4, key = *seed;
    const int64_t counters = (int64_t)((offset + (uint64_t)n - 1) / 4 - first);

    for (int64_t g : b.each(counters + 1)) {
        philox_words r = philox(key, first + (uint64_t)g);
        int64_t i = (int64_t)((first + (uint64_t)g) * 4 - offset);
        UNROLL for (int k = 0; k < 4; k++) if (i + k >= 0 && i + k < n)
            y[i + k] = (T)(r.w[k] >= threshold ? (acc<T>)x[i + k] * scale : 0);
    }
}

/* The same in vectors: each begins with a counter, the one at x with `first`.
 */
template <class T, int W>
KERNEL drop_vectors(blk b, T *y, const T *x, int64_t n, uint64_t threshold,
                    acc<T> scale, const uint64_t *seed, uint64_t first)
{
    typedef vec<acc<T>, W> V;
    const uint64_t key = *seed;

    for (int64_t i : b.each(n, W)) {
        V v = V::load(x + i, n - i);
        UNROLL for (int j = 0; j < W; j += 4)
        {
            const philox_words r = philox(key, first + (uint64_t)(i + j) / 4);
            UNROLL for (int k = 0; k < 4; k++) v.v[j + k] =
                r.w[k] >= threshold ? v.v[j + k] * scale : 0;
        }
        v.store(y + i, n - i);
    }
}

template <class T>
int add(struct device *d, void *y, const void *x, int64_t n, struct error *err)
{
    if (n < 0)
        return error_set(err, ERR_INVAL, "sum of two: n %lld", (long long)n);
    LAUNCH_FLAT(blocks(d, n), sum_into, (T *)y, (const T *)x, n);
    return finish(d, "sum of two", err);
}

template <class T>
int bias_fwd(struct device *d, void *y, const void *bias, int64_t rows,
             int32_t C, struct error *err)
{
    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "bias: rows %lld, C %d",
                         (long long)rows, (int)C);
    LAUNCH_ROWS(C, blocks(d, rows * C, rows), add_bias, (T *)y, (const T *)bias,
                rows, (int64_t)C);
    return finish(d, "bias", err);
}

template <class T>
int bias_bwd(struct device *d, void *db, const void *dy, int64_t rows,
             int32_t C, struct error *err)
{
    if (rows < 1 || C < 1)
        return error_set(err, ERR_INVAL, "bias' gradient: rows %lld, C %d",
                         (long long)rows, (int)C);
    int64_t c = C, parts = parts_for(d, rows * c, rows);
    double *part = scratch<double>(d, parts * c, err);
    if (!part)
        return -1;
    LAUNCH_ROWS(c, parts, bias_sums, part, (const T *)dy, rows, c);
    launch(d, fold_blocks(d, c), fold<T>, (T *)db, (const double *)part, parts,
           c);
    return finish(d, "bias' gradient", err);
}

template <class T>
int dropout(struct device *d, void *y, const void *x, int64_t n, double p,
            const uint64_t *seed, uint64_t offset, struct error *err)
{
    if (n < 0 || !(p >= 0 && p < 1))
        return error_set(err, ERR_INVAL, "dropout: n %lld, p %g", (long long)n,
                         p);
    constexpr int wide = sizeof(T) == 2 ? 8 : 4;
    const bool fits =
        offset % 4 == 0 &&
        (bits_of((T *)y) | bits_of((const T *)x)) % VEC_BYTES == 0;
    const uint64_t threshold = (uint64_t)ceil(p * 4294967296.0);
    const acc<T> scale = (acc<T>)(1 / (1 - p));
    if (fits)
        launch(d, blocks(d, 4 * n, n), drop_vectors<T, wide>, (T *)y,
               (const T *)x, n, threshold, scale, seed, offset / 4);
    else if (n > 0)
        launch(d, blocks(d, 4 * n, n), drop<T>, (T *)y, (const T *)x, n,
               threshold, scale, seed, offset);
    return finish(d, "dropout", err);
}

/* Passed as a kernel parameter: a copy from host memory would have to wait for
 * the device, or the host for the copy. */
struct few_bytes {
    unsigned char at[PUT_BYTES];
};

KERNEL put_bytes(blk b, unsigned char *dst, few_bytes v, int64_t n)
{
    for (int64_t i : b.lanes(n))
        dst[i] = v.at[i];
}

int put(struct device *d, void *dst, const void *src, size_t bytes,
        struct error *err)
{
    few_bytes v = {};

    if (bytes > PUT_BYTES)
        return error_set(err, ERR_INVAL,
                         "scalars of a step: %zu bytes, at most %d", bytes,
                         (int)PUT_BYTES);
    memcpy(v.at, src, bytes);
    launch(d, 1, put_bytes, (unsigned char *)dst, v, (int64_t)bytes);
    return finish(d, "scalars of a step", err);
}

} // namespace

FAMILY(elementwise)
{
    ops->add = BY_TYPE(add);
    ops->bias_fwd = BY_TYPE(bias_fwd);
    ops->bias_bwd = BY_TYPE(bias_bwd);
    ops->dropout = BY_TYPE(dropout);
    ops->put = put;
}
