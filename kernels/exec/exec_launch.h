/* exec_launch.h - launch kernels from an op, and choose their template
 * instance.
 *
 * An op is written once as a template on the storage type T:
 *
 *     template <class T>
 *     static int add(struct device *d, void *y, const void *x, int64_t n,
 *                    struct error *err)
 *
 * and BY_TYPE(add) is the member of the ops table, which takes the dtype as
 * its second argument and picks T from it. */
#ifndef MGPU_KERNELS_EXEC_EXEC_LAUNCH_H
#define MGPU_KERNELS_EXEC_EXEC_LAUNCH_H

#include "kernels/exec/exec.h"
#include "kernels/exec/exec_team.h"

namespace
{

inline struct exec_device *exec_of(struct device *d)
{
    return reinterpret_cast<struct exec_device *>(d);
}

/* Number of blocks for `work` values that can be split into at most
 * `shares`. */
inline int64_t blocks(struct device *d, int64_t work, int64_t shares)
{
    const struct exec_device *e = exec_of(d);
    int64_t n = work / e->block_work + 1;

    n = n < e->max_blocks ? n : e->max_blocks;
    return n < shares ? n : shares;
}
inline int64_t blocks(struct device *d, int64_t work)
{
    return blocks(d, work, work);
}

template <class... P, class... A>
inline void launch(struct device *d, int64_t grid, void (*kernel)(blk, P...),
                   A... a)
{
    struct exec_device *e = exec_of(d);

    if (grid < 1 || e->failed)
        return;
#if defined(MGPU_SIMT)
    e->failed =
        simt_launch_of(kernel, grid, e->lanes, [&] { kernel(blk{}, (P)a...); });
#elif defined(EXEC_CUDA)
    kernel<<<(unsigned)grid, (unsigned)e->lanes, 0, (cudaStream_t)e->stream>>>(
        blk{}, (P)a...);
    e->failed = (int)cudaGetLastError();
#else
    double begin_s = e->counts ? exec_begin(e) : 0;
    by_threads(d, grid, [&](int64_t i) { kernel(blk{i, grid}, (P)a...); });
    if (e->counts)
        exec_end(e, DEVICE_KERNEL, begin_s, 0);
#endif
}

/* The op's result: -1 if one of its launches failed. */
inline int finish(struct device *d, const char *op, struct error *err)
{
    struct exec_device *e = exec_of(d);

    return e->failed ? e->report(e, op, err) : 0;
}

/* Scratch for n values until the end of the op, or NULL and err. */
template <class A>
inline A *scratch(struct device *d, int64_t n, struct error *err)
{
    struct exec_device *e = exec_of(d);
    size_t bytes = (size_t)n * sizeof(A);

    if (bytes > e->scratch_bytes && e->grow(e, bytes, err) < 0)
        return nullptr;
    return static_cast<A *>(e->scratch);
}

/* Size of n values of T in doubles, so that the next array stays aligned. */
template <class T> inline int64_t doubles(int64_t n)
{
    return (n * (int64_t)sizeof(T) + 63) / 64 * 8;
}

/* ---- the width of the vectors ------------------------------------------- */
/* Address bits that matter for the alignment of a vector: only pointers have
 * any. The host's loads need no alignment, and its registers hold acc<T>. */
template <class X> inline uintptr_t bits_of(X)
{
    return 0;
}
#ifdef EXEC_CUDA
template <class T> constexpr int widest = VEC_BYTES / (int)sizeof(T);
template <class X> inline uintptr_t bits_of(X *p)
{
    return (uintptr_t)p;
}
#else
template <class T> constexpr int widest = VEC_BYTES / (int)sizeof(acc<T>);
#endif

/* For pointers to T and to acc<T>: the larger type decides. */
template <class T, int W>
constexpr uintptr_t aligned_for = W *(int)sizeof(acc<T>) < (int)VEC_BYTES
                                      ? W *(int)sizeof(acc<T>)
                                      : (int)VEC_BYTES;

/* The widest vector that divides rows of n values and that every pointer is
 * aligned for: the full width, half of it, or 1. */
template <class T, class... A> inline int width_of(int64_t n, A... a)
{
    constexpr int full = widest<T>, half = full > 1 ? full / 2 : 1;
    uintptr_t bits = (bits_of(a) | ...);

    if (n % full == 0 && bits % aligned_for<T, full> == 0)
        return full;
    if (n % half == 0 && bits % aligned_for<T, half> == 0)
        return half;
    return 1;
}

#define HALF_OF(n) ((n) > 1 ? (n) / 2 : 1)

/* Launches kernel<T, W> on rows of n values with the widest W that fits. */
#define LAUNCH_ROWS(n, grid, kernel, ...)                                  \
    do {                                                                   \
        int w_ = width_of<T>((n), __VA_ARGS__);                            \
        if (w_ == widest<T>)                                               \
            launch(d, (grid), kernel<T, widest<T>>, __VA_ARGS__);          \
        else if (w_ == HALF_OF(widest<T>))                                 \
            launch(d, (grid), kernel<T, HALF_OF(widest<T>)>, __VA_ARGS__); \
        else                                                               \
            launch(d, (grid), kernel<T, 1>, __VA_ARGS__);                  \
    } while (0)

/* The same for a flat array; the kernel handles the tail. */
#define LAUNCH_FLAT(grid, kernel, ...) LAUNCH_ROWS(0, grid, kernel, __VA_ARGS__)

/* ---- dtype -> T ---------------------------------------------------------- */
template <class T> struct dtype_id;
template <> struct dtype_id<double> {
    static constexpr enum dtype value = DT_F64;
};
template <> struct dtype_id<float> {
    static constexpr enum dtype value = DT_F32;
};
template <> struct dtype_id<f16> {
    static constexpr enum dtype value = DT_F16;
};
template <> struct dtype_id<bf16> {
    static constexpr enum dtype value = DT_BF16;
};
template <class T> constexpr enum dtype dtype_of = dtype_id<T>::value;

template <auto F64, auto F32, auto F16, auto BF16, class Sig> struct by_type;
template <auto F64, auto F32, auto F16, auto BF16, class... A>
struct by_type<F64, F32, F16, BF16, int (*)(struct device *, A...)> {
    static struct error *err_of(struct error *err)
    {
        return err;
    }
    template <class First, class... Rest>
    static struct error *err_of(First, Rest... rest)
    {
        return err_of(rest...);
    }
    static int call(struct device *d, enum dtype dt, A... a)
    {
        switch (dt) {
        case DT_F64:
            return F64(d, a...);
        case DT_F32:
            return F32(d, a...);
        case DT_F16:
            return F16(d, a...);
        case DT_BF16:
            return BF16(d, a...);
        default:
            return error_set(err_of(a...), ERR_INVAL, "no such dtype: %d",
                             (int)dt);
        }
    }
};
#define BY_TYPE(f) \
    by_type<&f<double>, &f<float>, &f<f16>, &f<bf16>, decltype(&f<float>)>::call

} // namespace
#endif
