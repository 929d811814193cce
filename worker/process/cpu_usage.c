/* cpu_usage.c - see cpu_usage.h. */
#include "worker/process/cpu_usage.h"

#include <math.h>
#include <sys/resource.h>

#include "jobs/base/clock.h"

static double cpu_s(bool is_command)
{
    struct rusage u;
    if (getrusage(is_command ? RUSAGE_CHILDREN : RUSAGE_SELF, &u) < 0)
        return NAN;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

struct used_since cpu_usage_begin(bool is_command)
{
    return (struct used_since){.is_command = is_command,
                               .at_s = clock_real.now_s(&clock_real),
                               .cpu_s = cpu_s(is_command)};
}

struct used cpu_usage_end(const struct used_since *since, double cores)
{
    double cpu = cpu_s(since->is_command) - since->cpu_s;
    double s = clock_real.now_s(&clock_real) - since->at_s;
    if (!isfinite(cpu) || cores <= 0)
        return (struct used){.cores_ms = 0};
    return (struct used){.cpu_ms = llround(1000 * cpu),
                         .cores_ms = llround(1000 * s * cores)};
}
