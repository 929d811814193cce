/* cuda_fault.h - which of CUDA's errors say that a GPU has failed, and not the
 * program on it. By number: who tells NCCL's from CUDA's has no CUDA.
 */
#ifndef MGPU_KERNELS_CUDA_FAULT_H
#define MGPU_KERNELS_CUDA_FAULT_H

#include <stdbool.h>

/* device_cuda.c compares them with CUDA's own. "Unknown" is what a GPU that
 * has fallen off its bus answers; what a program does to itself (an illegal
 * address, a launch that fails) has a name. */
enum {
    CUDA_UNAVAILABLE = 46, /* nobody can have it, at the first use */
    CUDA_ECC = 214,
    CUDA_NVLINK = 220,
    CUDA_CONTAINED = 226,
    CUDA_NOT_READY = 802, /* the switch between GPUs does not run */
    CUDA_UNKNOWN = 999,
};

static inline bool cuda_is_fault(int status)
{
    return status == CUDA_UNAVAILABLE || status == CUDA_ECC ||
           status == CUDA_NVLINK || status == CUDA_CONTAINED ||
           status == CUDA_NOT_READY || status == CUDA_UNKNOWN;
}

#endif
