/* simt.h - the CUDA built-ins for g++, so that the CUDA side of the kernels
 * runs, lane by lane, where there is no GPU. For tests only.
 *
 * The build puts this file before a .cu file (-include). Every lane of a
 * block is a coroutine with a stack of its own. __syncthreads() parks it
 * until all lanes of the block have arrived, a shuffle until the 32 lanes of
 * its warp have. One warp runs as far as it can before the next one starts,
 * which is the least favourable legal order: what one warp does not wait
 * for, it does not see. A warp's products and loads of matrices
 * (kernels/exec/exec_mma.h) are such meetings of its lanes, too. A copy beside
 * the work happens when it is waited for, or with lanes in reverse at once.
 *
 * Found:     a missing barrier (the result is wrong in one of the two lane
 *            orders), a barrier or a shuffle that some lanes do not reach,
 *            lanes of a warp that meet for different things, a copy that
 *            nobody waits for, or to or from an address that is no multiple
 *            of 16, shared memory that is read before it is written (it
 *            starts as NaN in every block), misaligned and out of bounds
 *            accesses (with UBSan and ASan), a dependence on the number of
 *            lanes.
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

enum {
    SIMT_OK,
    SIMT_MISSED_BARRIER,
    SIMT_MISSED_SHUFFLE, /* or the lanes of a warp met for different things */
    SIMT_BAD_LAUNCH,
    SIMT_MISALIGNED,
    SIMT_UNWAITED, /* a lane ends, and a copy has not been waited for */
};
/* Lanes and warps run from the last to the first, and copies are early. */
extern bool simt_reverse;

void __syncthreads();
/* What the lanes of a warp meet for. */
enum simt_meeting {
    SIMT_SHUFFLE,
    SIMT_MMA_A,
    SIMT_MMA_B,
    SIMT_LDMATRIX,
    SIMT_LDMATRIX_TRANS,
};
/* Leave 16 bytes at most for the warp; ret: where each lane of it left its
 * own, until the next meeting. */
void simt_gather(simt_meeting what, const void *mine, size_t bytes,
                 const void *(&ret)[32]);
/* The same; the address of what `from` left, a lane of the block. */
const void *simt_exchange(const void *mine, size_t bytes, unsigned from);
/* The kernel is wrong: the launch ends with this fault. */
void simt_trap(int fault);

/* Copies beside the work, of the lane that runs. */
struct simt_copy {
    void *to;
    const void *from;
    int bytes; /* the rest of 16 are zeros */
};
void simt_copy_later(simt_copy c);
void simt_copy_group();
/* The oldest copy that is not among the last `groups` groups; `all`: that has
 * not happened yet. false: there is none. */
bool simt_copy_due(int groups, bool all, simt_copy *ret);
/* Here, where who watches accesses sees them. */
static inline void simt_copy_now(int groups, bool all)
{
    simt_copy c;

    while (simt_copy_due(groups, all, &c)) {
        unsigned char line[16] = {0};
        if (c.bytes == 16) {
            memcpy(c.to, c.from, 16);
            continue;
        }
        for (int i = 0; i < c.bytes; i++)
            line[i] = static_cast<const unsigned char *>(c.from)[i];
        memcpy(c.to, line, 16);
    }
}
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

template <class V> static inline V __shfl_sync(unsigned, V v, int from)
{
    V r;
    const void *p =
        simt_exchange(&v, sizeof(v), threadIdx.x / 32 * 32 + (unsigned)from);

    memcpy(&r, p, sizeof(r));
    return r;
}

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

/* Called for each launch, which then does not run; NULL: it runs. For
 * tests/step, which counts launches. */
extern void (*simt_on_launch)(const void *kernel, int64_t grid);

/* Of this kernel, whose lanes do `lane`. */
template <class K, class F>
static inline int simt_launch_of(K *kernel, int64_t grid, int32_t lanes, F lane)
{
    if (!simt_on_launch)
        return simt_launch((unsigned)grid, (unsigned)lanes, lane);
    simt_on_launch(reinterpret_cast<const void *>(kernel), grid);
    return SIMT_OK;
}
#endif
