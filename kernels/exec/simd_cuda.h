/* simd_cuda.h - aliases of nvcc's 16-bit types. */
#ifndef MGPU_KERNELS_EXEC_SIMD_CUDA_H
#define MGPU_KERNELS_EXEC_SIMD_CUDA_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace
{

typedef __half f16;
typedef __nv_bfloat16 bf16;

} // namespace
#endif
