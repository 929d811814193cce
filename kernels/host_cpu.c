/* host_cpu.c - see host_cpu.h. The names of core types are those of
 * driver/others/dynamic.c of OpenBLAS. */
#include "kernels/host_cpu.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

const char *host_cpu_level_name(enum blas_level level)
{
    static const char *const names[] = {"SSE or AVX", "AVX2", "AVX-512"};
    return names[level];
}

enum blas_level host_cpu_level(struct host_cpu cpu)
{
    return cpu.avx512 ? BLAS_AVX512 : cpu.avx2 ? BLAS_AVX2 : BLAS_SSE;
}

enum blas_level host_cpu_core_level(const char *core)
{
    static const struct {
        const char *name;
        enum blas_level level;
    } cores[] = {
        {"Unknown", BLAS_SSE},     {"Katmai", BLAS_SSE},
        {"Coppermine", BLAS_SSE},  {"Northwood", BLAS_SSE},
        {"Prescott", BLAS_SSE},    {"Banias", BLAS_SSE},
        {"Atom", BLAS_SSE},        {"Core2", BLAS_SSE},
        {"Penryn", BLAS_SSE},      {"Dunnington", BLAS_SSE},
        {"Nehalem", BLAS_SSE},     {"Athlon", BLAS_SSE},
        {"Opteron", BLAS_SSE},     {"Opteron_SSE3", BLAS_SSE},
        {"Barcelona", BLAS_SSE},   {"Nano", BLAS_SSE},
        {"Sandybridge", BLAS_SSE}, {"Bobcat", BLAS_SSE},
        {"Bulldozer", BLAS_SSE},   {"Piledriver", BLAS_SSE},
        {"Steamroller", BLAS_SSE}, {"Excavator", BLAS_AVX2},
        {"Haswell", BLAS_AVX2},    {"Zen", BLAS_AVX2},
    };
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
        if (strcasecmp(core, cores[i].name) == 0)
            return cores[i].level;
    return BLAS_AVX512;
}

size_t host_cpu_cores(struct host_cpu cpu, const char *ret[BLAS_CORES])
{
    size_t n = 0;
    if (cpu.avx512_bf16)
        ret[n++] = "Cooperlake";
    if (cpu.avx512)
        ret[n++] = "SkylakeX";
    if (cpu.avx2)
        ret[n++] = "Haswell";
    return n;
}
