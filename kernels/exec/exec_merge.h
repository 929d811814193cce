/* exec_merge.h - statistics of a GPU's own kernels: each block sums its rows
 * about an origin of its own, and a kernel merges the blocks. */
#ifndef MGPU_KERNELS_EXEC_EXEC_MERGE_H
#define MGPU_KERNELS_EXEC_EXEC_MERGE_H

#include "kernels/exec/exec_norm.h"

namespace
{

/* What each block leaves of its rows: sums about an origin of its own, a value
 * near the mean of its own rows. part NULL: no sums are wanted. */
template <class T> struct own_sums {
    double *part;   /* [blocks, 2, C]: sums about the origin, and of squares */
    acc<T> *origin; /* [blocks, C] */
    double *rows;   /* [blocks]: how many */

    static int64_t size(int64_t blocks, int64_t C) /* in doubles */
    {
        return 2 * blocks * C + doubles<acc<T>>(blocks * C) +
               doubles<double>(blocks);
    }
    own_sums(double *room, int64_t blocks, int64_t C)
        : part(room), origin((acc<T> *)(room + 2 * blocks * C)),
          rows(room + 2 * blocks * C + doubles<acc<T>>(blocks * C))
    {
    }
};

/* Moves the sums of all blocks to the first one's origin, in double, and adds
 * them in order. A block without rows has sums of 0. */
template <class T>
KERNEL norm_merge(blk b, stats_of<T> out, own_sums<T> own, int64_t parts,
                  int64_t rows, int64_t C)
{
    const acc<T> *origin = own.origin;
    const double *part = own.part, *n = own.rows;

    folds_of<2, FOLD_COLUMNS>(
        b, parts, C,
        [=](double *s, int64_t p, int64_t c) {
            const double d = (double)origin[p * C + c] - (double)origin[c];
            const double sum = part[2 * p * C + c], shift = n[p] * d;
            s[0] += sum + shift;
            s[1] += part[(2 * p + 1) * C + c] + d * (2 * sum + shift);
        },
        [&](int64_t c, const double *of) {
            put_stats(out, c, origin[c], of[0], of[1], (double)rows);
        });
}

} // namespace
#endif
