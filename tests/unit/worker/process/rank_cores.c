/* rank_cores.c - ranks divide the cores of their attempt. */
#include "worker/process/rank_cores.h"

#include <stdlib.h>

#include "tests/tap.h"

/* The cores 1, 3, 5 and 7. */
static cpu_set_t odd(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    for (size_t cpu = 1; cpu < 8; cpu += 2)
        CPU_SET(cpu, &set);
    return set;
}

static void test_shares(void)
{
    cpu_set_t all = odd(), own;

    ok(rank_cores(&all, 1, 4, &own) && CPU_COUNT(&own) == 1 &&
           CPU_ISSET(3, &own),
       "one core for each of four ranks");
    ok(rank_cores(&all, 1, 2, &own) && CPU_COUNT(&own) == 2 &&
           CPU_ISSET(5, &own) && CPU_ISSET(7, &own),
       "the last two for the second of two");
    ok(rank_cores(&all, 0, 1, &own) && CPU_EQUAL(&own, &all),
       "all for the only one");
    ok(!rank_cores(&all, 0, 3, &own), "three ranks cannot divide four");
    ok(!rank_cores(&all, 0, 8, &own), "nor can eight");
}

/* A launcher that binds each rank does not make its share smaller. */
static void test_share(void)
{
    const struct comm bound = {.local_size = 2, .local_cpus = odd()};
    const struct comm unknown = {.local_size = 2};
    cpu_set_t all;

    (void)sched_getaffinity(0, sizeof(all), &all);
    ok(rank_cores_share(&bound) == 2, "a half of those of both ranks");
    ok(rank_cores_share(&unknown) == CPU_COUNT(&all) / 2.0,
       "of its own, where nobody knows the other's");
}

static void test_bind(void)
{
    cpu_set_t all, now;

    (void)sched_getaffinity(0, sizeof(all), &all);
    unsetenv(RANK_CORES_ENV);
    ok(!rank_cores_bind(0, CPU_COUNT(&all)), "not asked for: not bound");
    setenv(RANK_CORES_ENV, "1", 1);
    ok(!rank_cores_bind(0, 1), "one rank has them anyway");
    (void)sched_getaffinity(0, sizeof(now), &now);
    ok(CPU_EQUAL(&now, &all), "  and keeps them");
    if (CPU_COUNT(&all) < 2)
        return;
    ok(rank_cores_bind(0, CPU_COUNT(&all)), "bound");
    (void)sched_getaffinity(0, sizeof(now), &now);
    is_int(CPU_COUNT(&now), 1, "  to one core");
}

int main(void)
{
    test_shares();
    test_share();
    test_bind();
    return tap_done();
}
