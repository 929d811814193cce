/* exec_team.h - the host's team of threads, OpenMP's, which shares the blocks
 * of a launch. What a block computes depends on its number and on theirs alone,
 * so no result depends on the thread. */
#ifndef MGPU_KERNELS_EXEC_EXEC_TEAM_H
#define MGPU_KERNELS_EXEC_EXEC_TEAM_H

#include "kernels/exec/exec.h"

#ifndef EXEC_CUDA
#include <omp.h>

namespace
{

/* f(i) for i in 0..n, by the device's threads. */
template <class F> inline void by_threads(struct device *d, int64_t n, F f)
{
    if (n == 1 || d->threads == 1) {
        for (int64_t i = 0; i < n; i++)
            f(i);
        return;
    }
#pragma omp parallel for schedule(static) num_threads(d->threads)
    for (int64_t i = 0; i < n; i++)
        f(i);
}
/* Which thread of a launch calls, below d->threads. */
inline int64_t host_thread()
{
    return omp_get_thread_num();
}

} // namespace
#endif
#endif
