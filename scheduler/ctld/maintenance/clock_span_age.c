/* clock_span_age.c - see clock_span_age.h. */
#include "scheduler/ctld/maintenance/clock_span_age.h"

#include <math.h>

const double span_slack_s = 86400;

/* That is known to have passed between two spans. */
static double gap_s(const struct store_span *a, const struct store_span *b)
{
    double gap = fmax(b->begin_s - a->end_s, 0);
    return a->is_synced && b->is_synced ? gap : fmin(gap, span_slack_s);
}

double span_age_before(const struct store_span *v, size_t n, double age_s)
{
    double least_s = INFINITY; /* of the times that were passed so far */
    for (size_t i = n; i-- > 0;) {
        double lived_s = fmax(v[i].end_s - v[i].begin_s, 0);
        if (age_s <= lived_s)
            return fmin(least_s, v[i].end_s - age_s);
        age_s -= lived_s;
        least_s = fmin(least_s, v[i].begin_s);
        if (i == 0)
            break;
        double gap = gap_s(&v[i - 1], &v[i]);
        /* What ended in the gap nobody saw before the next span. */
        if (age_s <= gap)
            return fmin(least_s, v[i - 1].end_s);
        age_s -= gap;
    }
    return least_s - age_s;
}
