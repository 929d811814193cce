/* cast.cu - convert between types: mixed precision keeps weights in fp32 and
 * computes with 16-bit copies. */
#include "kernels/exec/exec_launch.h"

namespace
{

/* One by one, through the accumulator. */
template <class To, class From>
KERNEL convert(blk b, To *y, const From *x, int64_t n)
{
    for (int64_t i : b.each(n))
        y[i] = (To)(acc<From>)x[i];
}

/* Whole vectors of the narrower accumulator, float, and the tail. */
template <int W, class To, class From>
KERNEL convert_many(blk b, To *y, const From *x, int64_t n)
{
    typedef vec<float, W> V;

    for (int64_t i : b.each(n, W))
        V::load(x + i, n - i).store(y + i, n - i);
}

template <class To, class From>
int cast_to(struct device *d, To *y, const From *x, int64_t n,
            struct error *err)
{
    const int64_t grid = blocks(d, n);

    if constexpr (sizeof(To) == sizeof(double) ||
                  sizeof(From) == sizeof(double)) {
        launch(d, grid, convert<To, From>, y, x, n);
    } else {
        constexpr int W = widest<float>;
        if ((bits_of(x) | bits_of(y)) % VEC_BYTES == 0)
            launch(d, grid, convert_many<W, To, From>, y, x, n);
        else
            launch(d, grid, convert<To, From>, y, x, n);
    }
    return finish(d, "change of type", err);
}

template <class From>
int cast_from(struct device *d, enum dtype to, void *y, const void *x,
              int64_t n, struct error *err)
{
    const From *from = (const From *)x;

    if (n < 0)
        return error_set(err, ERR_INVAL, "change of type: n %lld",
                         (long long)n);
    switch (to) {
    case DT_F64:
        return cast_to(d, (double *)y, from, n, err);
    case DT_F32:
        return cast_to(d, (float *)y, from, n, err);
    case DT_F16:
        return cast_to(d, (f16 *)y, from, n, err);
    case DT_BF16:
        return cast_to(d, (bf16 *)y, from, n, err);
    default:
        return error_set(err, ERR_INVAL, "change of type: no such dtype: %d",
                         (int)to);
    }
}

int cast(struct device *d, enum dtype to, void *y, enum dtype from,
         const void *x, int64_t n, struct error *err)
{
    switch (from) {
    case DT_F64:
        return cast_from<double>(d, to, y, x, n, err);
    case DT_F32:
        return cast_from<float>(d, to, y, x, n, err);
    case DT_F16:
        return cast_from<f16>(d, to, y, x, n, err);
    case DT_BF16:
        return cast_from<bf16>(d, to, y, x, n, err);
    default:
        return error_set(err, ERR_INVAL, "change of type: no such dtype: %d",
                         (int)from);
    }
}

} // namespace

FAMILY(cast)
{
    ops->cast = cast;
}
