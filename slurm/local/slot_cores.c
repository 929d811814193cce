/* slot_cores.c - see slot_cores.h. */
#include "slurm/local/slot_cores.h"

#include <unistd.h>

int32_t slot_cores_all(cpu_set_t *ret)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        if (ret)
            *ret = set;
        return CPU_COUNT(&set);
    }
    /* More cores than a cpu_set_t has bits. */
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    if (ret)
        CPU_ZERO(ret);
    return n > 0 ? (int32_t)n : 1;
}

int32_t slot_cores(const struct alloc_local *l, const struct local_attempt *a,
                   cpu_set_t *ret)
{
    cpu_set_t all;
    int32_t n = slot_cores_all(&all), nth = 0;
    int32_t own = l->n_slots > 0 ? n / l->n_slots : 0;

    /* A mask that shrank since the start, or an attempt without a slot: as
     * without local.bind. */
    if (!l->binds || own == 0 || a->n_slots == 0) {
        *ret = all;
        return n;
    }
    CPU_ZERO(ret);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        int32_t slot = nth++ / own;
        if (slot < l->n_slots && a->used[slot])
            CPU_SET(cpu, ret);
    }
    return CPU_COUNT(ret);
}
