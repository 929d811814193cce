/* self_checks.c - see self_checks.h. */
#include "scheduler/sim/self_checks.h"

#include <inttypes.h>
#include <stdio.h>

#include "scheduler/sim/trace/digits.h"

enum {
    BENCH_JOBS_MAX = 200000,
    BENCH_GPUS_MAX = 200000,
    NODE_GPUS = 8,
    DECISIONS = 1000 /* enough for a p99 of ten */
};

int self_check(const struct sim_args *a, struct error *err)
{
    double began_s = clock_real.now_s(&clock_real);

    for (int32_t i = 0; i < a->seeds; i++)
        if (random_world_check(a->conf.seed + (uint32_t)i, err) < 0)
            return -1;
    (void)printf("%" PRId32 " random worlds, every invariant holds, %.1f s\n",
                 a->seeds, clock_real.now_s(&clock_real) - began_s);
    return 0;
}

int self_bench(struct sim_args *a, struct sim_cluster *ret_cluster,
               struct sim_trace *ret_trace, struct error *err)
{
    char text[32];
    const char *at = a->bench;
    int32_t jobs = 0, gpus = 0;

    if (!digits_take(&at, BENCH_JOBS_MAX, &jobs) || *at++ != 'x' ||
        !digits_take(&at, BENCH_GPUS_MAX, &gpus) || *at != '\0' || jobs < 1 ||
        gpus < 1)
        return error_set(err, ERR_USAGE,
                         "--bench: '%.40s' is not JOBSxGPUS of 1..%d each, "
                         "such as 10000x10000",
                         a->bench, BENCH_JOBS_MAX);
    (void)snprintf(text, sizeof(text), "%dx%d",
                   (gpus + NODE_GPUS - 1) / NODE_GPUS, NODE_GPUS);
    a->conf.decisions_max = DECISIONS;
    if (sim_cluster_parse(text, ret_cluster, err) < 0)
        return -1;
    return random_queue(a->conf.seed, jobs, ret_trace, err);
}
