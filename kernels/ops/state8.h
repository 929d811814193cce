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

/* What a value with code i is at most. in  i  of 0..STATE8_CODES - 2 */
STATE8_FN float state8_middle(const float *map, int64_t i)
{
    return (map[i] + map[i + 1]) / 2;
}

/* in  x  of -1..1 */
STATE8_FN uint8_t state8_code(const float *map, float x)
{
    int low = 0, high = STATE8_CODES - 1;
    while (low < high) {
        const int mid = (low + high) / 2;
        if (state8_middle(map, mid) < x)
            low = mid + 1;
        else
            high = mid;
    }
    return (uint8_t)low;
}

/* The same from the middles: how many are below x, by halves, without a branch.
 * in  middle  those of a map, STATE8_CODES - 1;  x  of -1..1 */
STATE8_FN uint8_t state8_find(const float *middle, float x)
{
    int low = 0;
    for (int half = STATE8_CODES / 2; half > 0; half /= 2)
        low += middle[low + half - 1] < x ? half : 0;
    return (uint8_t)low;
}

/* What the values of a block are multiplied by, so that they are -1..1. */
STATE8_FN float state8_scale(float most)
{
    return most > 0 ? 1.0f / most : 0;
}

#endif
