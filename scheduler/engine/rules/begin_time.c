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

void eng_begin_one(struct engine *e, struct entry *en)
{
    const struct job *job = &en->job;
    bool waits = job->state == JOB_QUEUED || job->state == JOB_HELD ||
                 job->state == JOB_NEW;
    en->is_early = waits && job->attempt == 0 && job->begin_s > eng_wall(e);
    if (!en->is_early)
        return;
    e->begin_at_s = -INFINITY;
    eng_file(e, en);
}

/* Sets the reason, unless the job waits for a dependency first. Returns when to
 * look again. */
static double tell(struct engine *e, struct entry *en, double left_s)
{
    char reason[JOB_REASON_CAP], at[WIRE_TIME_CAP];

    double start_s = eng_now(e) + left_s;
    bool is_told = strncmp(en->job.reason, token, strlen(token)) == 0 &&
                   fabs(en->job.start_estimate_s - start_s) < 1;

    if (en->job.state == JOB_QUEUED && !en->is_waiting && !is_told) {
        wire_time(en->job.begin_s, at);
        (void)snprintf(reason, sizeof(reason), "%snot before %s", token, at);
        en->job.start_estimate_s = start_s;
        (void)eng_set_reason(e, en, reason);
    }
    return eng_now(e) + fmin(left_s, LOOK_S);
}

static void begin(struct engine *e, struct entry *en)
{
    en->is_early = false;
    eng_file(e, en);
    e->wants_plan = true;
    if (en->job.state != JOB_QUEUED || en->is_waiting)
        return;
    en->job.start_estimate_s = NAN;
    (void)eng_set_reason(e, en, "");
}

void eng_begins(struct engine *e)
{
    struct entry_list *early = &e->files.early;
    double wall_s = eng_wall(e), next_s = INFINITY;

    if (e->begin_at_s > eng_now(e))
        return;
    for (size_t i = early->n; i-- > 0;) { /* a job that begins leaves the
                                             list */
        struct entry *en = early->at[i];
        double left_s = en->job.begin_s - wall_s;
        if (left_s <= 0 || job_state_is_final(en->job.state))
            begin(e, en);
        else
            next_s = fmin(next_s, tell(e, en, left_s));
    }
    e->begin_at_s = next_s;
}
