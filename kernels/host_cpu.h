/* host_cpu.h - what the host's processor can do, as far as code is chosen by
 * it, and OpenBLAS's core types: the processors that it has code for. */
#ifndef MGPU_KERNELS_HOST_CPU_H
#define MGPU_KERNELS_HOST_CPU_H

#include <stdbool.h>
#include <stddef.h>

struct host_cpu {
    bool avx2;        /* with FMA */
    bool avx512;      /* all of x86-64-v4 */
    bool avx512_bf16; /* and products of bf16 */
};

/* The processor, without AVX-512 if $MGPU_HOST_SIMD is 256: for comparisons,
 * and for the same bits as on a machine without it. */
struct host_cpu host_cpu(void);

/* The instructions of a core type's fp32 and fp64 products. */
enum blas_level { BLAS_SSE, BLAS_AVX2, BLAS_AVX512 };

const char *host_cpu_level_name(enum blas_level level); /* "AVX2" */
/* The best that the processor has. */
enum blas_level host_cpu_level(struct host_cpu cpu);
/* The level of a core type, in any case of letters. A name that is newer than
 * this file counts as AVX-512, as every core type since SkylakeX. */
enum blas_level host_cpu_core_level(const char *core);
/* The core types for a processor, best first: ret[0..n). Returns n; 0: OpenBLAS
 * has none that is better than its own choice. */
enum { BLAS_CORES = 3 };
size_t host_cpu_cores(struct host_cpu cpu, const char *ret[BLAS_CORES]);

#endif
