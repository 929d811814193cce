/* simt.h - the CUDA built-ins for g++, so that the CUDA side of the kernels
 * runs, lane by lane, where there is no GPU. For tests only.
 *
 * The build puts this file before a .cu file (-include). Every lane of a
 * block is a coroutine with a stack of its own. __syncthreads() parks it
 * until all lanes of the block have arrived, a shuffle until the 32 lanes of
 * its warp have. One warp runs as far as it can before the next one starts,
 * which is the least favourable legal order: what one warp does not wait
 * for, it does not see.
 *
 * Found:     a missing barrier (the result is wrong in one of the two lane
 *            orders), a barrier or a shuffle that some lanes do not reach,
 *            shared memory that is read before it is written (it starts as
 *            NaN in every block), misaligned and out of bounds accesses
 *            (with UBSan and ASan), a dependence on the number of lanes.
 * Not found: the memory model, the alignment of a shared array, and anything
 *            about speed. Races that neither order of the lanes shows are for
 *            tests/race, which watches every access.
 */
#ifndef MGPU_TESTS_SIMT_H
#define MGPU_TESTS_SIMT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __shared__ static

struct simt_dim {
    unsigned x;
};
extern simt_dim threadIdx, blockIdx, blockDim, gridDim;

enum { SIMT_OK, SIMT_MISSED_BARRIER, SIMT_MISSED_SHUFFLE, SIMT_BAD_LAUNCH };

void __syncthreads();
/* Leave 16 bytes for the warp; the address of those that `from` left. */
const void *simt_exchange(const void *mine, size_t bytes, unsigned from);
/* Fill a shared array with NaN when the block comes to it first. */
void simt_shared(void *p, size_t bytes);
/* When an access happens, for who watches them (tests/race). A moment is what
 * a block does between two barriers; moments are numbered through all blocks
 * of all launches, from 1 on. */
struct simt_clock {
    uint64_t moment, block, launch; /* now, and the first of both */
    bool in_lane;       /* a lane runs, not the code that launches */
    const char *stacks; /* of all lanes, which only they use */
    size_t stack_bytes;
};
extern simt_clock simt_now;
/* Called when a block comes to a shared array first; may be NULL. */
extern void (*simt_on_shared)(const void *p, size_t bytes);
/* SIMT_OK, or what was wrong with the kernel. */
int simt_run(unsigned grid, unsigned lanes, void (*lane)(void *arg), void *arg);

template <class V> static inline V __shfl_xor_sync(unsigned, V v, int mask)
{
    V r;
    const void *p = simt_exchange(&v, sizeof(v), threadIdx.x ^ (unsigned)mask);

    memcpy(&r, p, sizeof(r));
    return r;
}

template <class F>
static inline int simt_launch(unsigned grid, unsigned lanes, F lane)
{
    return simt_run(
        grid, lanes, [](void *arg) { (*static_cast<F *>(arg))(); }, &lane);
}
#endif
