/* event_counts.h - counters and waits of /metrics, from the events of jobs. */
#ifndef MGPU_SCHEDULER_CTLD_USAGE_EVENT_COUNTS_H
#define MGPU_SCHEDULER_CTLD_USAGE_EVENT_COUNTS_H

#include <stdint.h>

struct ctld_stats;
struct job;
struct store_event;

enum { WAIT_BUCKETS = 12 };
/* Waits of jobs, from the submit to the first claim of an attempt. */
struct wait_counts {
    uint64_t n, buckets[WAIT_BUCKETS]; /* not cumulative; the last is all above
                                          the bounds */
    double sum_s;
};
extern const double wait_bounds_s[WAIT_BUCKETS - 1];

/* Counts a durable event since the daemon started.
 * in   job  after the event, and perhaps after later ones of its batch; NULL:
 *      it was removed */
void event_counts_note(struct ctld_stats *s, const struct store_event *event,
                       const struct job *job);

#endif
