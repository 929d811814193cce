/* job_cursor.h - iterate over the jobs that match a filter, the newest first,
 * in memory and archived.
 *
 * A long iteration runs in slices, between which the loop turns, so the result
 * is no snapshot of one moment. Each job is as it was at some moment, and none
 * is missing or there twice, not even a job that is evicted meanwhile.
 */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_CURSOR_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_JOB_CURSOR_H

#include "scheduler/ctld/job_list/job_filter.h"

struct job_cursor_conf {
    struct ctld *c;
    struct http_exchange *x; /* its filter; the cursor ends when it is gone */
    struct job_filter f;     /* its limit: so many are shown */
    /* The archive row of a job is enough; see engine_archive_lines(). */
    bool is_brief;
    /* A further filter; NULL: none. */
    bool (*fits)(void *arg, const struct job *j);
    /* A job that matches; borrowed for the call.  err  ends the iteration */
    int (*each)(void *arg, const struct job *j, struct error *err);
    /* Called last, and again in the next turn until it returns true. Then it
     * has replied and freed arg. It works until until_s of clock_real at most.
     * in  why  NULL: there are no more jobs */
    bool (*end)(void *arg, double until_s, const struct error *why);
    void *arg;
};

/* Runs the first slice at once. end() is called in any case. */
void job_cursor_start(const struct job_cursor_conf *conf);

int job_cursor_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Ends the cursors that are under way; the reader's thread has ended. */
void job_cursor_clear(struct ctld *c);

#endif
