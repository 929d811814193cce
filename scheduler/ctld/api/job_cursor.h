/* job_cursor.h - through the jobs that a filter fits, the newest first, be they
 * in memory or archived.
 *
 * A long way is gone in slices, between which the loop turns: so what comes is
 * no picture of one moment. Each job is as it was at one, and none is missing
 * or there twice, not even one that leaves memory meanwhile.
 */
#ifndef MGPU_SCHEDULER_CTLD_API_JOB_CURSOR_H
#define MGPU_SCHEDULER_CTLD_API_JOB_CURSOR_H

#include "scheduler/ctld/api/job_filter.h"

struct walk_conf {
    struct ctld *c;
    struct http_exchange *x; /* whose filter it is; while it is not gone */
    struct ctld_filter f;    /* of its limit, so many are shown */
    /* Of an archived job what its line says is enough; see
     * engine_past_lines(). */
    bool is_brief;
    /* Further than the filter; NULL: all fit. */
    bool (*fits)(void *arg, const struct job *j);
    /* One that fits; borrowed for the call.  err  it ends the walk */
    int (*each)(void *arg, const struct job *j, struct error *err);
    /* Called last, and again in the next turn until it returns true. By then it
     * has replied, and the arg is gone. Not beyond until_s of clock_real.
     * in  why  NULL: there are no more */
    bool (*end)(void *arg, double until_s, const struct error *why);
    void *arg;
};

/* job_json_stream.c: whether is_brief does for these of ctld_members_parse().
 */
bool ctld_members_are_brief(uint64_t set);

/* Its first slice is gone at once. Whatever happens, end() is called. */
void walk_start(const struct walk_conf *conf);

int ctld_walks_init(struct ctld *c, struct error *err) MUST_CHECK;
/* Ends those that are under way; the reader's thread is gone. */
void ctld_walks_clear(struct ctld *c);

#endif
