/* clock_span_age.h - how old a time is, by what was lived through.
 *
 * A wall clock may be wrong for a while: in 1970 after a dead battery, years
 * ahead, a month back. What ended under it must not look old for that, nor
 * what ended before look old because of it. So ages are not differences of the
 * clock; they are told by spans (db/store.h), in which the clock was seen to
 * go as time does.
 */
#ifndef MGPU_SCHEDULER_CTLD_MAINTENANCE_CLOCK_SPAN_AGE_H
#define MGPU_SCHEDULER_CTLD_MAINTENANCE_CLOCK_SPAN_AGE_H

#include "db/store.h"

/* How far the clock may be off what is expected without being taken for set,
 * and how much of the time counts in which no daemon was there; all of it when
 * the clock was kept right from outside before and after. Seconds. */
extern const double span_slack_s;

/* The time before which what ended is older than age_s for sure, since 1970:
 * no time of the last age_s that were lived through is before it, and none of a
 * gap between spans before all of it is: what ended there was heard of later.
 *
 * v[n], n >= 1: by id; the end of the last one is now. Before the first, time
 * is taken to have gone as the clock says. */
double span_age_before(const struct store_span *v, size_t n, double age_s);

#endif
