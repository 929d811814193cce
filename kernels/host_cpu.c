/* host_cpu.c - see host_cpu.h. */
#include "kernels/host_cpu.h"

#include <stdlib.h>
#include <string.h>

struct host_cpu host_cpu(void)
{
    struct host_cpu cpu = {0};
#ifdef __x86_64__
    const char *bits = getenv("MGPU_HOST_SIMD");
    cpu.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    cpu.avx512 = (bits == NULL || strcmp(bits, "256") != 0) &&
                 __builtin_cpu_supports("avx512f") &&
                 __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512cd") &&
                 __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vl");
    cpu.avx512_bf16 = cpu.avx512 && __builtin_cpu_supports("avx512bf16");
#endif
    return cpu;
}
