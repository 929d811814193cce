/* schedule.c - see schedule.h. */
#include "worker/schedule.h"

#include <math.h>

double schedule_factor(enum spec_schedule name, int64_t step, int64_t warmup,
                       int64_t total)
{
    if (step < warmup)
        return (double)step / (double)warmup;
    if (name == SCHEDULE_CONSTANT)
        return 1;
    int64_t span = total - warmup > 1 ? total - warmup : 1;
    double done = (double)(step - warmup) / (double)span;
    double factor = 0.5 * (1 + cos(acos(-1.0) * done));
    return factor > 0 && done < 1 ? factor : 0;
}
