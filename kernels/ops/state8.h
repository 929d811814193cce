/* state8.h - an optimizer's state in eight bits: codes of a map, and the
 * largest value of each block of neighbours.
 *
 * A value is map[code] * the largest absolute value of its block. The map is
 * sorted; a value gets the code of the nearest entry, the smaller one of two as
 * near. Kernels and the host share this: see optim.cu and optimizer_state8.c.
 *
 * src  Dettmers et al. 2022, arXiv:2110.02861
 */
#ifndef MGPU_KERNELS_OPS_STATE8_H
#define MGPU_KERNELS_OPS_STATE8_H

#include <stdint.h>

#ifndef STATE8_FN
#define STATE8_FN static inline
#endif

enum { STATE8_BLOCK = 256, STATE8_CODES = 256 };

STATE8_FN int64_t state8_blocks(int64_t n)
{
    return (n + STATE8_BLOCK - 1) / STATE8_BLOCK;
}

/* in  x  of -1..1 */
STATE8_FN uint8_t state8_code(const float *map, float x)
{
    int low = 0, high = STATE8_CODES - 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if ((map[mid] + map[mid + 1]) / 2 < x)
            low = mid + 1;
        else
            high = mid;
    }
    return (uint8_t)low;
}

/* What the values of a block are multiplied by, so that they are -1..1. */
STATE8_FN float state8_scale(float most)
{
    return most > 0 ? 1.0f / most : 0;
}

#endif
