/* blas_core.c - see blas_core.h. The names are those of driver/others/dynamic.c
 * of OpenBLAS. */
#include "kernels/blas_core.h"

#include <strings.h>

const char *blas_core_level_name(enum blas_level level)
{
    static const char *const names[] = {"SSE or AVX", "AVX2", "AVX-512"};
    return names[level];
}

enum blas_level blas_core_of_cpu(struct host_cpu cpu)
{
    return cpu.avx512 ? BLAS_AVX512 : cpu.avx2 ? BLAS_AVX2 : BLAS_SSE;
}

enum blas_level blas_core_level(const char *core)
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

size_t blas_core_list(struct host_cpu cpu, const char *ret[BLAS_CORES])
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
