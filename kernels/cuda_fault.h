/* cuda_fault.h - the CUDA errors that mean a failed GPU, as opposed to an error
 * of the program on it. By number, because a caller that distinguishes NCCL's
 * errors from CUDA's is built without CUDA. */
#ifndef MGPU_KERNELS_CUDA_FAULT_H
#define MGPU_KERNELS_CUDA_FAULT_H

#include <stdbool.h>

/* device_cuda.c compares them with CUDA's own. A GPU that has fallen off its
 * bus answers "unknown"; an error of the program itself (an illegal address, a
 * failed launch) has another number. */
enum {
    CUDA_UNAVAILABLE = 46, /* no process can use it, at the first use */
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
