/* simt_device.h - the emulated CUDA device, for tests. */
#ifndef MGPU_TESTS_SIMT_DEVICE_H
#define MGPU_TESTS_SIMT_DEVICE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* lanes: a multiple of 32, at most 256. reverse: lanes and warps run from
 * the last to the first. One device at a time: the order is the emulator's.
 */
int device_simt_create(int32_t lanes, bool reverse, struct device **ret,
                       struct error *err) MUST_CHECK;

/* The purpose-made kernels of faulty.cu, each with 64 lanes in one block; 0
 * or a SIMT_ fault. out [64] is lane i's view of what lane 63 - i wrote. */
int simt_try_good(double *out);
int simt_try_no_barrier(double *out);
int simt_try_lane_misses_barrier(double *out);
int simt_try_lane_misses_shuffle(double *out);
int simt_try_unwritten_shared(double *out);
int simt_try_no_barrier_between_uses(double *out);

/* Those of tensor.cu, with 64 lanes, of which each warp has matrices of its
 * own: d [2, 16, 8] = A [2, 16, 16] B [2, 16, 8] + C, factors in fp16 or bf16.
 * how 0: fragments element by element, by the tables of the PTX ISA; 1: from
 * shared memory with B as it is; 2: with B transposed there. */
int simt_try_product(bool is_bf16, int how, float *d, const void *A,
                     const void *B, const float *C);
/* out [64]: the sums of the 4 values of each of the lines x [lines, 64, 4]
 * that lane 63 - i has copied, of the last one of 2. fault 0 is none, 1 no
 * wait, 2 no group, 3 no barrier before a line is copied over, 4 an odd
 * address. */
int simt_try_copies(int fault, float *out, const float *x, int lines);
/* how 0: a lane misses a product; 1: it loads a matrix meanwhile; 2: it gives a
 * row at an odd address; 3: it ends before its copy has. */
int simt_try_misled(int how, float *out);

#ifdef __cplusplus
}
#endif
#endif
