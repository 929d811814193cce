/* fake_quant.cu - values as four or eight bits would hold them, in the type
 * that they have: quantisation-aware training.
 *
 * Bit by bit what torchao 0.9.0 makes on a CPU for 8da4w. The scale is computed
 * in the type of the values, where that has 16 bits; what follows is fp32. fp64
 * values are rounded to fp32 first, which torchao refuses. Products of two
 * fp32 values are exact in fp64, so rounding each operation gives the same
 * there.
 *
 * src  Jacob et al. 2018, arXiv:1712.05877 (training with rounded values) */
#include "kernels/exec/exec_launch.h"

namespace
{

constexpr float LEAST = 1.0f / (1 << 23); /* of a scale: fp32's epsilon */

/* The type that the choice of a scale rounds to. */
template <class T> struct rounds_to {
    typedef T type;
};
template <> struct rounds_to<double> {
    typedef float type;
};
template <class T> FN float in(float v)
{
    return (float)(typename rounds_to<T>::type)v;
}

FN float at_least(float v, float low)
{
    return v < low ? low : v;
}

/* An operation on vectors of doubles, rounded to fp32. gcc 12 leaves out both
 * conversions of neighbouring values where it makes vectors of them. */
template <class A, int W> FN vec<A, W> to_f32(vec<A, W> x)
{
    if constexpr (sizeof(A) > sizeof(float)) {
#if defined(MGPU_SIMT)
        EACH
        {
            volatile float f = (float)x.v[k];
            x.v[k] = f;
        }
#elif defined(EXEC_CUDA)
        EACH x.v[k] = (A)(float)x.v[k];
#else
        typedef typename simd<float, W>::type F;
        const F f = __builtin_convertvector(x.v, F);
        x.v = __builtin_convertvector(f, typename vec<A, W>::S);
#endif
    }
    return x;
}
template <class A, int W> FN vec<A, W> nearest_int(vec<A, W> x)
{
    EACH x.v[k] = rint((A)x.v[k]);
    return x;
}

/* The integers low..high times a scale, from `zero` on. */
struct grid {
    float scale, inverse, zero, low, high;
    template <class A, int W> FN vec<A, W> of(vec<A, W> x) const
    {
        typedef vec<A, W> V;
        V q = nearest_int(to_f32(x * (A)inverse)) + (A)zero;

        q = vmin(vmax(q, V::of(low)), V::of(high));
        return to_f32((q - (A)zero) * (A)scale);
    }
};

template <class T, int W> FN vec<acc<T>, W> values_at(const T *x)
{
    return to_f32(vec<acc<T>, W>::load(x));
}

/* The largest of some values, at least 0. One that is no finite number makes
 * it NaN, as it makes the scale. */
template <class A, int W> struct largest {
    typedef vec<A, W> V;
    V most = V::of(0), none = V::of(0);
    FN void see(V v)
    {
        most = vmax(v, most);
        none += v - v;
    }
    FN float value() const
    {
        return (float)(most.largest() + none.total());
    }
};
struct keep_larger {
    FN float operator()(float most, float v) const
    {
        return v > most || v != v ? v : most;
    }
};

/* ---- weights: int4, symmetric, by groups --------------------------------- */

template <class T> FN grid grid_of_group(float absmax)
{
    const float scale = at_least(in<T>(absmax / 7.5f), LEAST);

    return {scale, 1.0f / scale, 0, -8, 7};
}

/* The lanes of a row of the rectangle take a group together. */
template <class T, int W>
KERNEL round_groups(blk b, T *y, const T *w, int64_t groups, int64_t size)
{
    const int64_t tiles = size / W;
    const rect lay(b, tiles);
    const range share = b.share(groups);
    SHARED(float, part, MAX_LANES);

    for (int64_t first = share.lo; first < share.hi; first += lay.down) {
        const int64_t g = first + lay.row;
        const range own = g < share.hi ? lay.cols(tiles) : range{0, 0, 1};
        largest<acc<T>, W> seen;
        for (int64_t t : own) {
            const vec<acc<T>, W> v = values_at<T, W>(w + g * size + t * W);
            seen.see(vmax(v, vec<acc<T>, W>::of(0) - v));
        }
        float most = part[b.lane()] = seen.value();
        b.sync(); /* the parts are there */
        for (int64_t k = 0; k < lay.across && lay.row < lay.down; k++)
            most = keep_larger()(most, part[lay.row * lay.across + k]);
        const grid ints = grid_of_group<T>(most);
        for (int64_t t : own)
            ints.of(values_at<T, W>(w + g * size + t * W))
                .store(y + g * size + t * W);
        b.sync(); /* the parts are free */
    }
}

/* ---- activations: int8, asymmetric, by rows ------------------------------ */

/* Which of the two ends keeps its place decides the rounding of the zero. */
template <class T> FN grid grid_of_row(float least, float most)
{
    const float scale = at_least(in<T>(in<T>(most - least) / 255.0f), LEAST);
    const float low = in<T>(least / scale), high = in<T>(most / scale);
    const bool by_low = in<T>(in<T>(-128 + low) + in<T>(127 + high)) > 0;
    float zero = by_low ? in<T>(-128 - low) : in<T>(127 - high);

    zero = rintf(zero < -128 ? -128 : zero > 127 ? 127 : zero);
    return {scale, 1.0f / scale, zero, -128, 127};
}

template <class T, int W>
KERNEL round_rows(blk b, T *y, const T *x, int64_t rows, int64_t C)
{
    for (int64_t r : b.share(rows)) {
        largest<acc<T>, W> below, above; /* 0 */
        for (int64_t i : b.lanes(C, W)) {
            const vec<acc<T>, W> v = values_at<T, W>(x + r * C + i);
            below.see(vec<acc<T>, W>::of(0) - v);
            above.see(v);
        }
        const float least = -b.reduce(below.value(), 0.0f, keep_larger());
        const float most = b.reduce(above.value(), 0.0f, keep_larger());
        const grid ints = grid_of_row<T>(least, most);
        for (int64_t i : b.lanes(C, W))
            ints.of(values_at<T, W>(x + r * C + i)).store(y + r * C + i);
    }
}

/* ---- the ops ------------------------------------------------------------- */

template <class T>
int round_int4(struct device *d, void *y, const void *w, int64_t n,
               int32_t group, struct error *err)
{
    int64_t size = group;

    if (group < 1 || n < 0 || n % group != 0)
        return error_set(err, ERR_INVAL,
                         "int4: %lld values, which are no groups of %d",
                         (long long)n, (int)group);
    LAUNCH_ROWS(size, blocks(d, n, n / size), round_groups, (T *)y,
                (const T *)w, n / size, size);
    return finish(d, "int4", err);
}

template <class T>
int round_int8(struct device *d, void *y, const void *x, int64_t rows,
               int32_t C, struct error *err)
{
    int64_t c = C;

    if (rows < 0 || C < 1)
        return error_set(err, ERR_INVAL, "int8: rows %lld, C %d",
                         (long long)rows, (int)C);
    LAUNCH_ROWS(c, blocks(d, rows * c, rows), round_rows, (T *)y, (const T *)x,
                rows, c);
    return finish(d, "int8", err);
}

} // namespace

FAMILY(fake_quant)
{
    ops->llm.round_int4 = BY_TYPE(round_int4);
    ops->llm.round_int8 = BY_TYPE(round_int8);
}
