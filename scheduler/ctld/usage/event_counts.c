/* event_counts.c - see event_counts.h. */
#include "scheduler/ctld/usage/event_counts.h"

#include <math.h>

#include "scheduler/ctld/ctld_internal.h"

/* From jobs that start at once, which takes a second or two, to a queue of a
 * week. */
const double wait_bounds_s[WAIT_BUCKETS - 1] = {
    1, 5, 15, 60, 300, 900, 3600, 14400, 43200, 86400, 604800};

/* A job that changes its size continues the same attempt's work. */
static void count_resize(struct ctld_stats *s, const struct store_event *event,
                         const struct job *job)
{
    if (event->ev != EV_RUN || event->at_s != job->run_s ||
        isnan(job->resize.checkpoint_s))
        return;
    s->resizes++;
    s->resize_s[0] += job->resize.checkpoint_s;
    s->resize_s[1] += job->resize.allocator_s;
    s->resize_s[2] += job->resize.start_s;
}

/* As the mean wait of mgpu-stat --usage. Attempts before the first claim were
 * taken back, refused or never claimed: the job waited on. A clock that was set
 * back makes no wait negative. */
static void count_wait(struct wait_counts *w, const struct store_event *event,
                       const struct job *job)
{
    int i = 0;

    if (event->ev != EV_CLAIM || event->attempt != job->first_claimed ||
        isnan(job->submit_s))
        return;
    double wait_s = fmax(0, event->at_s - job->submit_s);
    while (i < WAIT_BUCKETS - 1 && wait_s > wait_bounds_s[i])
        i++;
    w->buckets[i]++;
    w->sum_s += wait_s;
    w->n++;
}

void event_counts_note(struct ctld_stats *s, const struct store_event *event,
                       const struct job *job)
{
    s->events++;
    if (!job)
        return;
    count_resize(s, event, job);
    count_wait(&s->waits, event, job);
}
