/* simd_cuda.h - what the kernels have of nvcc alone: its 16-bit types, and
 * exec_module.h. */
#ifndef MGPU_KERNELS_EXEC_SIMD_CUDA_H
#define MGPU_KERNELS_EXEC_SIMD_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/exec/exec_module.h"

namespace
{

typedef __half f16;
typedef __nv_bfloat16 bf16;

} // namespace
#endif
