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

#ifdef __cplusplus
}
#endif
#endif
