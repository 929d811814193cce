/* slot_rows.h - how the host divides the pixels of a pointwise convolution: by
 * the shape alone, so that its sums do not depend on the number of threads. */
#ifndef MGPU_KERNELS_CV_SLOT_ROWS_H
#define MGPU_KERNELS_CV_SLOT_ROWS_H

#include "kernels/exec/exec_columns.h"
#include "kernels/exec/simd_tile.h"

namespace
{

/* How the host splits rows: every slot belongs to a thread, which processes
 * `most` rows at a time. */
struct row_slots {
    /* Rows of a slot: adding its gradient of the weights to those of others
     * takes little beside its products. */
    enum { LEAST = 256, ONE_LEAST = 10 * TILE_ROWS };
    struct device *d;
    int64_t rows, slots, most;

    row_slots(struct device *dev, int64_t n, int64_t width, int64_t values,
              int64_t least)
        : d(dev), rows(n), slots(parts_for(dev, n * width, n, LEAST))
    {
        most = values / width / TILE_ROWS * TILE_ROWS;
        if (slots == 1)
            least = ONE_LEAST; /* a team for each */
        most = most < least ? least : most;
        most = most < n ? most : n;
    }
    /* Above every host_thread() of each()'s calls. */
    int64_t threads() const
    {
        return slots == 1 ? 1 : d->threads;
    }
    /* Calls f(slot, first row, number of rows, whether it is the slot's first).
     * Every slot is called, if only with no rows. It counts as one kernel: what
     * a thread launches is a part of it. */
    template <class F> void each(F f) const
    {
        struct exec_device *e = exec_of(d);
        struct device_count *counts = e->counts;
        const double begin_s = exec_begin(e);

        e->counts = nullptr;
        by_threads(d, slots, [&](int64_t s) {
            const range mine = blk{s, slots}.share(rows, TILE_ROWS);
            int64_t lo = mine.lo;
            do {
                const int64_t n = mine.hi - lo < most ? mine.hi - lo : most;
                f(s, lo, n, lo == mine.lo);
                lo += most;
            } while (lo < mine.hi);
        });
        e->counts = counts;
        exec_end(e, DEVICE_KERNEL, begin_s, 0);
    }
    /* f(columns) for all of n in whole panels, which the threads share where
     * there is one slot; `work`: products of some rows. */
    template <class F>
    void columns(int64_t n, int64_t panel, int64_t work, F f) const
    {
        const int64_t panels = (n + panel - 1) / panel;
        const int64_t each = slots > 1 ? 1 : blocks(d, work / 16, panels);
        by_threads(d, each, [&](int64_t i) {
            range of = blk{i, each}.share(panels);
            of.lo *= panel;
            of.hi = of.hi * panel < n ? of.hi * panel : n;
            f(of);
        });
    }
};

/* Adds sums in A of some rows to the sums in double. */
template <class A> FN void flush_sums(double *part, A *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        part[i] += (double)sums[i];
        sums[i] = 0;
    }
}

} // namespace
#endif
