/* pool.cu - average pooling over the pixels of each image, and its gradient. */
#include "kernels/exec/exec_launch.h"

namespace
{

template <class T, int W>
KERNEL mean_fwd(blk b, T *y, const T *x, int64_t N, int64_t HW, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const acc<T> inv = 1 / (acc<T>)HW;

    for (int64_t n : b.share(N))
        for (int64_t t : b.lanes(C / W)) {
            const T *p = x + n * HW * C + t * W;
            V s = V::of(0);
            for (int64_t i = 0; i < HW; i++)
                s += V::load(p + i * C);
            (s * inv).store(y + n * C + t * W);
        }
}

template <class T, int W>
KERNEL mean_bwd(blk b, T *dx, const T *dy, int64_t N, int64_t HW, int64_t C)
{
    typedef vec<acc<T>, W> V;
    const acc<T> inv = 1 / (acc<T>)HW;

    for (int64_t n : b.share(N))
        for (int64_t t : b.lanes(C / W)) {
            V g = V::load(dy + n * C + t * W) * inv;
            for (int64_t i = 0; i < HW; i++)
                g.store(dx + (n * HW + i) * C + t * W);
        }
}

int check(const char *op, int32_t N, int32_t HW, int32_t C, struct error *err)
{
    if (N < 1 || HW < 1 || C < 1)
        return error_set(err, ERR_INVAL, "%s: [%d, %d, %d]", op, (int)N,
                         (int)HW, (int)C);
    return 0;
}

template <class T>
int avgpool_fwd(struct device *d, void *y, const void *x, int32_t N, int32_t HW,
                int32_t C, struct error *err)
{
    if (check("mean over pixels", N, HW, C, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, (int64_t)N * HW * C, N), mean_fwd, (T *)y,
                (const T *)x, (int64_t)N, (int64_t)HW, (int64_t)C);
    return finish(d, "mean over pixels", err);
}

template <class T>
int avgpool_bwd(struct device *d, void *dx, const void *dy, int32_t N,
                int32_t HW, int32_t C, struct error *err)
{
    if (check("mean over pixels' gradient", N, HW, C, err) < 0)
        return -1;
    LAUNCH_ROWS(C, blocks(d, (int64_t)N * HW * C, N), mean_bwd, (T *)dx,
                (const T *)dy, (int64_t)N, (int64_t)HW, (int64_t)C);
    return finish(d, "mean over pixels' gradient", err);
}

} // namespace

FAMILY(pool)
{
    ops->avgpool_fwd = BY_TYPE(avgpool_fwd);
    ops->avgpool_bwd = BY_TYPE(avgpool_bwd);
}
