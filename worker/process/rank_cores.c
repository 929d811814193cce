/* rank_cores.c - see rank_cores.h. A set has 1,024 processors; a kernel with
 * more says so by an error, and nothing is bound. */
#include "worker/process/rank_cores.h"

#include <stdlib.h>

double rank_cores_share(const struct comm *c)
{
    const cpu_set_t own = comm_own_cpus();
    const int32_t ranks = c->local_size > 0 ? c->local_size : 1;
    const int n = CPU_COUNT(&c->local_cpus);

    /* If the launcher does not say where the others run, assume the processors
     * of this rank. */
    return (double)(n > 0 ? n : CPU_COUNT(&own)) / ranks;
}

bool rank_cores(const cpu_set_t *all, int32_t local_rank, int32_t local_size,
                cpu_set_t *ret)
{
    int32_t n = CPU_COUNT(all), nth = 0;

    if (local_size < 1 || n % local_size != 0)
        return false;
    CPU_ZERO(ret);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all) && nth++ / (n / local_size) == local_rank)
            CPU_SET(cpu, ret);
    return CPU_COUNT(ret) > 0;
}

bool rank_cores_bind(int32_t local_rank, int32_t local_size)
{
    cpu_set_t all, own;

    return getenv(RANK_CORES_ENV) != NULL && local_size > 1 &&
           sched_getaffinity(0, sizeof(all), &all) == 0 &&
           rank_cores(&all, local_rank, local_size, &own) &&
           sched_setaffinity(0, sizeof(own), &own) == 0;
}
