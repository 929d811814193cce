/* limits.h - what this machine can do at most, measured. */
#ifndef MGPU_TESTS_BENCH_LIMITS_H
#define MGPU_TESTS_BENCH_LIMITS_H

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "kernels/host_cpu.h"

struct limits {
    double flops; /* fp32 operations per second, a product and sum being two */
    double bytes; /* per second from and to memory, read or written */
};

enum {
    LIMIT_CHAINS = 12,       /* more than latency times width of any FMA unit,
                              * and fewer than there are registers */
    LIMIT_VALUES = 16 << 20, /* floats in each of three arrays: 192 MB */
    LIMIT_ROUNDS = 5,
    LIMIT_THREADS = 64,
};

struct limit_job {
    int64_t times;
    float *a, *b, *c;
    int64_t lo, hi;
    float out;
};

/* Chains of a register each; ISO C alone would have a product and a sum. */
#define LIMIT_FLOPS(name, BYTES)                                     \
    __attribute__((optimize("fp-contract=fast"))) static float name( \
        int64_t times)                                               \
    {                                                                \
        typedef float vec __attribute__((vector_size(BYTES)));       \
        vec v[LIMIT_CHAINS], k = {0}, s = {0};                       \
        for (int i = 0; i < LIMIT_CHAINS; i++)                       \
            v[i] = s + (float)i;                                     \
        k += 0.5f;                                                   \
        for (int64_t t = 0; t < times; t++)                          \
            UNROLL_CHAINS                                            \
        for (int i = 0; i < LIMIT_CHAINS; i++)                       \
            v[i] = v[i] * k + k;                                     \
        for (int i = 0; i < LIMIT_CHAINS; i++)                       \
            s += v[i];                                               \
        return s[0];                                                 \
    }
#define UNROLL_CHAINS _Pragma("GCC unroll 12")
LIMIT_FLOPS(limit_flops_16, 16)
#ifdef __x86_64__
__attribute__((target("avx2,fma"))) LIMIT_FLOPS(limit_flops_32, 32)
    __attribute__((target("avx512f"))) LIMIT_FLOPS(limit_flops_64, 64)
#endif

    /* The bytes of the registers that the host's kernels have. */
    static int limit_register(void)
{
    const struct host_cpu cpu = host_cpu();
    return cpu.avx512 ? 64 : cpu.avx2 ? 32 : 16;
}

static float limit_flops(int64_t times)
{
#ifdef __x86_64__
    if (limit_register() == 64)
        return limit_flops_64(times);
    if (limit_register() == 32)
        return limit_flops_32(times);
#endif
    return limit_flops_16(times);
}

static void *limit_flops_job(void *arg)
{
    struct limit_job *j = arg;
    j->out = limit_flops(j->times);
    return NULL;
}

static void *limit_bytes_job(void *arg)
{
    struct limit_job *j = arg;
    for (int64_t i = j->lo; i < j->hi; i++)
        j->a[i] = j->b[i] + 3 * j->c[i];
    return NULL;
}

/* Seconds for f on `threads` threads with a core each, the best of a few
 * rounds: of CPU time, which a busy machine does not lengthen. */
static double limit_time(void *(*f)(void *), struct limit_job *jobs,
                         int32_t threads)
{
    double best = 1e30;
    for (int32_t r = 0; r < LIMIT_ROUNDS; r++) {
        struct timespec a, b;
        pthread_t id[LIMIT_THREADS];
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        for (int32_t i = 0; i < threads; i++)
            if (pthread_create(&id[i], NULL, f, &jobs[i]) != 0)
                exit(1);
        for (int32_t i = 0; i < threads; i++)
            (void)pthread_join(id[i], NULL);
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        const double s = ((double)(b.tv_sec - a.tv_sec) +
                          1e-9 * (double)(b.tv_nsec - a.tv_nsec)) /
                         threads;
        best = s < best ? s : best;
    }
    return best;
}

static struct limits limits_measure(int32_t threads)
{
    struct limit_job jobs[LIMIT_THREADS];
    const int64_t times = 10 * 1000 * 1000, n = LIMIT_VALUES;
    void *p = NULL;
    struct limits ret;
    threads = threads < 1               ? 1
              : threads > LIMIT_THREADS ? LIMIT_THREADS
                                        : threads;
    const size_t bytes = 3 * (size_t)n * sizeof(float);
    if (posix_memalign(&p, 2 << 20, bytes) != 0)
        exit(1);
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    float *f = p;
    for (int64_t i = 0; i < 3 * n; i++)
        f[i] = 1;
    for (int32_t i = 0; i < threads; i++)
        jobs[i] = (struct limit_job){.times = times,
                                     .a = f,
                                     .b = f + n,
                                     .c = f + 2 * n,
                                     .lo = n * i / threads,
                                     .hi = n * (i + 1) / threads};
    ret.flops = 2.0 * LIMIT_CHAINS * limit_register() / 4 * (double)times *
                threads / limit_time(limit_flops_job, jobs, threads);
    ret.bytes = (double)bytes / limit_time(limit_bytes_job, jobs, threads);
    free(p);
    return ret;
}

#endif
