/* exec.h - the execution model that kernels are written to.
 *
 * A kernel is a function whose first parameter is a blk. A launch runs it on
 * some number of independent blocks. The lanes of a block split loops with
 * lanes(n), the blocks with share(n). A kernel must be correct for every number
 * of lanes and of blocks. Lanes are in warps of WARP, which is 1 on the host.
 *
 *   nvcc   A block is a CUDA thread block and a lane is a thread.
 *   g++    A block has ONE lane: lanes(n) is a plain loop that the compiler
 *          vectorises, sync() does nothing, sum() is the identity. OpenMP
 *          distributes the blocks over the cores.
 *   simt   g++ -DMGPU_SIMT: the CUDA side of this file, with each lane a
 *          coroutine (tests/simt/simt.h). For tests.
 *
 * Blocks take contiguous shares. A grid-stride loop, the usual CUDA idiom,
 * would become a loop with a stride of the number of cores on the host.
 *
 * Everything is in an unnamed namespace: two builds of one kernel may be linked
 * into one test, where their vec<float, 4> differ. */
#ifndef MGPU_KERNELS_EXEC_EXEC_H
#define MGPU_KERNELS_EXEC_EXEC_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/exec/exec_device.h"

#if defined(__CUDACC__) || defined(MGPU_SIMT)
#define EXEC_CUDA 1
#define FN __device__ __forceinline__
#define KERNEL static __global__ void
/* A block of MAX_LANES lanes, with registers for n blocks per multiprocessor.
 * Two hide each other's latency: a lane has at most 128 then. */
#ifdef MGPU_SIMT
#define KERNEL_OF(n) KERNEL
#else
#define KERNEL_OF(n) static __global__ void __launch_bounds__(256, n)
#endif
#define KERNEL_OF_TWO KERNEL_OF(2)
/* The alignment is required: without it a 16-byte store to a shared array of
 * floats faults, depending on what precedes the array. */
#define SHARED(type, name, n) SHARED_AT(16, type, name, n)
/* From a multiple of `bytes` on. */
#define SHARED_AT(bytes, type, name, n) alignas(bytes) __shared__ type name[n]
#ifdef MGPU_SIMT
#undef SHARED_AT
#define SHARED_AT(bytes, type, name, n) \
    alignas(bytes) static type name[n]; \
    simt_shared(name, sizeof(name))
#define UNROLL
#define UNROLL_HELD
#define ROLLED
#define FAMILY(name) extern "C" void simt_##name(struct device_ops *ops)
#else
#define UNROLL _Pragma("unroll")
/* Over arrays of a lane, which are in registers then; the host has them in
 * memory. */
#define UNROLL_HELD UNROLL
#define ROLLED _Pragma("unroll 1")
#define FAMILY(name) CUDA_FAMILY(name)
#endif
enum { MAX_LANES = 256, VEC_BYTES = 16 };

#else
#define FN inline __attribute__((always_inline))
#define KERNEL static void
#define KERNEL_OF_TWO KERNEL
#define SHARED(type, name, n) type name[n]
#define UNROLL _Pragma("GCC unroll 16")
#define UNROLL_HELD
#ifdef MGPU_WIDE /* for machines with AVX-512, beside the one for all */
#define FAMILY(name) extern "C" void wide_##name(struct device_ops *ops)
#else
#define FAMILY(name) extern "C" void host_##name(struct device_ops *ops)
#endif
#if defined(__AVX512F__)
enum { MAX_LANES = 1, VEC_BYTES = 64 };
#elif defined(__AVX__)
enum { MAX_LANES = 1, VEC_BYTES = 32 };
#else
enum { MAX_LANES = 1, VEC_BYTES = 16 };
#endif
#endif

#include "kernels/exec/simd.h"

namespace
{

/* for (int64_t i : range) */
struct range {
    struct at {
        int64_t i, step;
        FN int64_t operator*() const
        {
            return i;
        }
        FN void operator++()
        {
            i += step;
        }
        FN bool operator!=(const at &end) const
        {
            return i < end.i;
        }
    };
    int64_t lo, hi, step;
    FN at begin() const
    {
        return {lo, step};
    }
    FN at end() const
    {
        return {hi, step};
    }
};

struct blk {
#ifdef EXEC_CUDA
    enum { WARP = 32 };
    FN int64_t id() const
    {
        return blockIdx.x;
    }
    FN int64_t count() const
    {
        return gridDim.x;
    }
    FN int lane() const
    {
        return (int)threadIdx.x;
    }
    FN int width() const
    {
        return (int)blockDim.x;
    }
    FN void sync() const
    {
        __syncthreads();
    }
    /* All lanes receive the same value. First within warps, then one value per
     * warp; the last barrier frees `part` for the next call. */
    template <class A, class Op> FN A reduce(A v, A zero, Op op) const
    {
        SHARED(A, part, 32);
        UNROLL for (int m = 16; m; m >>= 1) v =
            op(v, __shfl_xor_sync(~0u, v, m));
        if (lane() % 32 == 0)
            part[lane() / 32] = v;
        __syncthreads();
        v = lane() % 32 < width() / 32 ? part[lane() % 32] : zero;
        UNROLL for (int m = 16; m; m >>= 1) v =
            op(v, __shfl_xor_sync(~0u, v, m));
        __syncthreads();
        return v;
    }
    /* All lanes of the warp receive the same value, without a barrier: that of
     * the first one, or the largest. */
    template <class A> FN A warp_first(A v) const
    {
        return __shfl_sync(~0u, v, 0);
    }
    template <class A> FN A warp_max(A v) const
    {
        UNROLL for (int m = WARP / 2; m; m >>= 1) v =
            larger()(v, __shfl_xor_sync(~0u, v, m));
        return v;
    }
#else
    enum { WARP = 1 };
    int64_t id_, count_;
    FN int64_t id() const
    {
        return id_;
    }
    FN int64_t count() const
    {
        return count_;
    }
    static constexpr int lane()
    {
        return 0;
    }
    static constexpr int width()
    {
        return 1;
    }
    FN void sync() const
    {
    }
    template <class A, class Op> FN A reduce(A v, A, Op) const
    {
        return v;
    }
    template <class A> FN A warp_first(A v) const
    {
        return v;
    }
    template <class A> FN A warp_max(A v) const
    {
        return v;
    }
#endif
    struct plus {
        template <class A> FN A operator()(A a, A b) const
        {
            return a + b;
        }
    };
    struct larger {
        template <class A> FN A operator()(A a, A b) const
        {
            return a > b ? a : b;
        }
    };
    template <class A> FN A sum(A v) const
    {
        return reduce(v, A(0), plus());
    }
    template <class A> FN A max(A v) const
    {
        return reduce(v, A(-INFINITY), larger());
    }

    /* This lane's part of 0..n, w neighbours at a time; all lanes of the
     * block together do all of it. */
    FN range lanes(int64_t n, int w = 1) const
    {
        return {(int64_t)lane() * w, n, (int64_t)width() * w};
    }
    /* This block's contiguous part of 0..n, in whole multiples of w. */
    FN range share(int64_t n, int w = 1) const
    {
        int64_t units = (n + w - 1) / w;
        int64_t per = (units + count() - 1) / count() * w;
        int64_t lo = id() * per, hi = lo + per;
        return {lo < n ? lo : n, hi < n ? hi : n, 1};
    }
    /* This lane's part of 0..n when all blocks together do all of it. */
    FN range each(int64_t n, int w = 1) const
    {
        range r = share(n, w);
        return {r.lo + (int64_t)lane() * w, r.hi, (int64_t)width() * w};
    }
    /* This warp's part of 0..n when all warps together do all of it: each lane
     * of a warp gets the same. */
    FN range warps(int64_t n) const
    {
        range r = share(n);
        return {r.lo + warp_first(lane() / WARP), r.hi, width() / WARP};
    }
    FN int lane_of_warp() const
    {
        return lane() % WARP;
    }
};

/* A kernel's parameter that points to values accessed one at a time: its
 * alignment does not narrow the vectors (exec_launch.h). */
template <class X> struct single {
    X *at;
};

/* Maps a block's lanes to a rectangle of rows x tiles: tiles first, then rows,
 * so that a layer of 16 channels still keeps 256 lanes busy. */
struct rect {
    int col, across, row, down; /* a GPU divides 64 bits slowly */
    FN rect(blk b, int64_t tiles)
    {
        across = tiles < b.width() ? (int)tiles : b.width();
        down = b.width() / across;
        col = b.lane() % across;
        row = b.lane() / across;
    }
    FN range cols(int64_t tiles) const
    {
        return {row < down ? col : tiles, tiles, across};
    }
    FN range rows(range r) const
    {
        return {r.lo + row, r.hi, down};
    }
};

} // namespace
#endif
