/* time_limit.c - see time_limit.h. */
#include "slurm/helper/time_limit.h"

#include <math.h>

/* The unit of a limit in Slurm. */
static const double MINUTE_S = 60;
/* slurmctld looks at its jobs every 30 s, and warns 30 s ahead of that. */
static const double EARLY_S = 60;

/* Slurm counts whole seconds, and takes 0 for its default of a minute. */
static double whole(double warning_s)
{
    return warning_s >= 1 ? floor(warning_s) : 0;
}

double time_limit_minutes(double limit_s, double margin_s, double most)
{
    double minutes = ceil((limit_s + margin_s) / MINUTE_S);

    if (most > 0 && minutes > most && limit_s <= most * MINUTE_S)
        minutes = most;
    return minutes;
}

double time_limit_warning_s(double grace_s, double limit_s, double margin_s,
                            double minutes)
{
    double later_s = fmin(margin_s, minutes * MINUTE_S - limit_s);

    return whole(fmin(grace_s, later_s - EARLY_S));
}

double time_limit_own_warning_s(double grace_s, double margin_s, double minutes)
{
    double certain_s = minutes * MINUTE_S - EARLY_S;

    return whole(
        fmin(grace_s, minutes > 0 ? certain_s / 2 : margin_s - EARLY_S));
}
