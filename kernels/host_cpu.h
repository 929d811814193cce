/* host_cpu.h - what the host's processor can do, as far as code is chosen by
 * it. */
#ifndef MGPU_KERNELS_HOST_CPU_H
#define MGPU_KERNELS_HOST_CPU_H

#include <stdbool.h>

struct host_cpu {
    bool avx2;        /* with FMA */
    bool avx512;      /* all of x86-64-v4 */
    bool avx512_bf16; /* and products of bf16 */
};

/* The processor, without AVX-512 if $MGPU_HOST_SIMD is 256: for comparisons,
 * and for the same bits as on a machine without it. */
struct host_cpu host_cpu(void);

#endif
