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

enum { STATE8_BLOCK = 256, STATE8_BITS = 8, STATE8_CODES = 1 << STATE8_BITS };

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

/* The middles as a tree: node 1 is the one between halves of the codes, and
 * below node i are 2 i and 2 i + 1. The nodes of a level are neighbours, so
 * that lanes which look up different ones of them meet in few banks of shared
 * memory. in  node  of 1..STATE8_CODES - 1 */
STATE8_FN float state8_node(const float *map, int node)
{
    int first = 1; /* of the level */
    while (2 * first <= node)
        first *= 2;
    const int apart = STATE8_CODES / first;
    return state8_middle(map, (node - first) * apart + apart / 2 - 1);
}

/* The same code from the tree, without a branch: how many middles are below x.
 * in  tree  [STATE8_CODES]: node i at i;  x  of -1..1 */
STATE8_FN uint8_t state8_find(const float *tree, float x)
{
    int node = 1;
    for (int level = 0; level < STATE8_BITS; level++)
        node = 2 * node + (tree[node] < x);
    return (uint8_t)(node - STATE8_CODES);
}

/* What the values of a block are multiplied by, so that they are -1..1. */
STATE8_FN float state8_scale(float most)
{
    return most > 0 ? 1.0f / most : 0;
}

#endif
