/* begin_time.c - keep jobs pending until their begin time (policy.begin).
 *
 * A begin time is on the wall clock, so setting that clock moves it. The engine
 * looks at the clock every LOOK_S seconds at least, because nothing reports
 * that it was set. Once the begin time of a job has passed, it has passed for
 * good: neither a clock that is set back nor another attempt makes the job wait
 * again.
 *
 * Until then a job is not in the queue and in no view of a policy: others may
 * get the devices that it will ask for.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "jobs/wire/wire.h"
#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/rules/rules.h"

static const double LOOK_S = 30;
static const char token[] = "BeginTime: ";

void eng_begin_one(struct engine *e, struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool waits = job->state == JOB_QUEUED || job->state == JOB_HELD ||
                 job->state == JOB_NEW;
    rec->is_early = waits && job->attempt == 0 && job->begin_s > eng_wall(e);
    if (!rec->is_early)
        return;
    e->begin_at_s = -INFINITY;
    eng_lists_update(e, rec);
}

/* Sets the reason, unless the job waits for a dependency first. Returns when to
 * look again. */
static double tell(struct engine *e, struct job_record *rec, double left_s)
{
    char reason[JOB_REASON_CAP], at[WIRE_TIME_CAP];

    double start_s = eng_now(e) + left_s;
    bool is_told = strncmp(rec->job.reason, token, strlen(token)) == 0 &&
                   fabs(rec->job.start_estimate_s - start_s) < 1;

    if (rec->job.state == JOB_QUEUED && !rec->is_waiting && !is_told) {
        wire_time(rec->job.begin_s, at);
        (void)snprintf(reason, sizeof(reason), "%snot before %s", token, at);
        rec->job.start_estimate_s = start_s;
        (void)eng_set_reason(e, rec, reason);
    }
    return eng_now(e) + fmin(left_s, LOOK_S);
}

static void begin(struct engine *e, struct job_record *rec)
{
    rec->is_early = false;
    eng_lists_update(e, rec);
    e->wants_plan = true;
    if (rec->job.state != JOB_QUEUED || rec->is_waiting)
        return;
    rec->job.start_estimate_s = NAN;
    (void)eng_set_reason(e, rec, "");
}

void eng_begins(struct engine *e)
{
    struct record_list *early = &e->lists.early;
    double wall_s = eng_wall(e), next_s = INFINITY;

    if (e->begin_at_s > eng_now(e))
        return;
    for (size_t i = early->n; i-- > 0;) { /* a job that begins leaves the
                                             list */
        struct job_record *rec = early->at[i];
        double left_s = rec->job.begin_s - wall_s;
        if (left_s <= 0 || job_state_is_final(rec->job.state))
            begin(e, rec);
        else
            next_s = fmin(next_s, tell(e, rec, left_s));
    }
    e->begin_at_s = next_s;
}
