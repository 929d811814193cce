/* blas_core.h - OpenBLAS's core types: the processors that it has code for. */
#ifndef MGPU_KERNELS_BLAS_CORE_H
#define MGPU_KERNELS_BLAS_CORE_H

#include <stddef.h>

#include "kernels/host_cpu.h"

/* The instructions of a core type's fp32 and fp64 products. */
enum blas_level { BLAS_SSE, BLAS_AVX2, BLAS_AVX512 };

const char *blas_core_level_name(enum blas_level level); /* "AVX2" */
/* The best that the processor has. */
enum blas_level blas_core_of_cpu(struct host_cpu cpu);
/* The level of a core type, in any case of letters. A name that is newer than
 * this file counts as AVX-512, as every core type since SkylakeX. */
enum blas_level blas_core_level(const char *core);
/* The core types for a processor, best first: ret[0..n). Returns n; 0: OpenBLAS
 * has none that is better than its own choice. */
enum { BLAS_CORES = 3 };
size_t blas_core_list(struct host_cpu cpu, const char *ret[BLAS_CORES]);

#endif
