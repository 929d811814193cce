/* timers.c - deadlines: time limits, warnings, stalls, giving up.
 *
 * All deadlines are on the engine's monotonic clock: a wall clock that jumps
 * ends no job. After a restart the engine sets the clocks from the stored
 * times. The heartbeat deadlines start anew, so that after a long outage, or a
 * stalled event loop, the workers have time to report.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"

static const double TIME_80 = 0.8;
static const char gave_no_sign[] = "its worker sent no heartbeats any more";
const char eng_was_stuck[] = "it made no progress";
const char eng_was_done[] = "its worker reported its end but did not exit";
static const char never_claimed[] = "its worker did not claim its lease";

static bool is_claimed(const struct job *job)
{
    return job->holder[0] != '\0';
}

/* No deadline applies to an attempt that may have ended while the daemon was
 * down: first the allocator or the worker has to report that it still runs, and
 * the worker has its heartbeat time-out to report its run time. None applies to
 * an attempt that could not be claimed meanwhile, because its limit counts from
 * its claim, nor to one that has done all its work and so ended in time. */
static double end_at(const struct engine *e, const struct job_record *rec,
                     double after_s)
{
    const struct job *job = &rec->job;
    bool is_done = job->reported && job->report_code == 0;
    bool is_due = !job->limit_hit && !job->cancel_asked &&
                  !job->requeue_asked && !is_done && rec->is_heard &&
                  !isnan(rec->start_now_s) && !rec->is_suspended &&
                  !rec->is_from_claim;
    double at_s = is_due ? rec->start_now_s + after_s : (double)INFINITY;
    return rec->is_by_wall
               ? fmax(at_s, job->beat_s + e->parts.conf->node_lost_s)
               : at_s;
}

static double limit_at(const struct engine *e, const struct job_record *rec)
{
    return end_at(e, rec, rec->job.attempt_limit_s);
}

/* No warning before the first iteration: there is nothing to save, and a
 * program may not have installed its signal handler yet. */
static double warn_at(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool runs = job->state == JOB_RUNNING || job->state == JOB_STALLED;
    return job->warn_signal > 0 && !job->is_warned && runs && !job->reported
               ? end_at(e, rec, job->attempt_limit_s - job->warn_before_s)
               : (double)INFINITY;
}

static double time_80_at(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool is_asked = (job->notify_on & NOTIFY_TIME_80) != 0 && !job->is_time_80;
    return is_asked && is_claimed(job) && !job->reported
               ? end_at(e, rec, TIME_80 * job->attempt_limit_s)
               : (double)INFINITY;
}

static double stall_at(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool beats = job->state == JOB_STARTING || job->state == JOB_RUNNING;
    return beats && !job->reported && !rec->is_suspended
               ? job->beat_s + eng_or_never(e->parts.conf->node_lost_s)
               : (double)INFINITY;
}

/* A stalled worker gets the heartbeat time-out once more to come back, and a
 * worker that sends heartbeats without progress the same time to make some,
 * unless the job only wants a notification. An attempt that was never claimed
 * gets twice the time-out from its grant. An attempt that has reported is
 * silent because it is done: if it hangs, it gets the time of a stalled one. */
static double give_up_at(const struct engine *e, const struct job_record *rec)
{
    double lost_s = eng_or_never(e->parts.conf->node_lost_s);
    if (rec->give_up || rec->is_suspended)
        return INFINITY;
    if (rec->job.reported)
        return rec->job.beat_s + 2 * lost_s;
    if (rec->job.state == JOB_STALLED && rec->is_stuck && !rec->job.stall_ends)
        return rec->job.beat_s + 2 * lost_s;
    if (rec->job.state == JOB_STALLED)
        return rec->stalled_s + lost_s;
    if (!is_claimed(&rec->job) && !isnan(rec->granted_s))
        return rec->granted_s + 2 * lost_s;
    return INFINITY;
}

void engine_was_away(struct engine *e)
{
    double now_s = eng_now(e);

    e->listens_s = eng_wall(e);
    for (size_t i = 0; i < e->n_active; i++) {
        struct job_record *rec = e->active[i];
        if (!job_state_is_live(rec->job.state))
            continue;
        rec->stalled_s = rec->job.beat_s = now_s;
        eng_stall_moved(rec, now_s);
        if (!isnan(rec->granted_s))
            rec->granted_s = now_s;
        rec->is_from_claim = rec->job.native_id[0] && !is_claimed(&rec->job);
    }
}

double eng_timers_next(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;

    if (!job_state_is_live(job->state))
        return INFINITY;
    double t = fmin(limit_at(e, rec), stall_at(e, rec));
    t = fmin(t, fmin(give_up_at(e, rec), warn_at(e, rec)));
    t = fmin(t, fmin(time_80_at(e, rec), eng_stall_at(e, rec)));
    if (!rec->is_resumed)
        t = fmin(t,
                 fmin(rec->limit_at_s, fmin(rec->tell_at_s, rec->warn_at_s)));
    bool is_next = eng_wants_release(rec) && !rec->is_resumed;
    return fmin(t, is_next ? rec->release_at_s : rec->ask_at_s);
}

static const char *why_given_up(const struct engine *e,
                                const struct job_record *rec)
{
    const struct job *job = &rec->job;
    double silent_s = eng_now(e) - job->beat_s;

    if (job->reported)
        return eng_was_done;
    if (job->state != JOB_STALLED)
        return never_claimed;
    return rec->is_stuck && silent_s < e->parts.conf->node_lost_s
               ? eng_was_stuck
               : gave_no_sign;
}

static int one(struct engine *e, struct job_record *rec, double now_s)
{
    struct detail d = DETAIL_INIT;

    if (limit_at(e, rec) <= now_s) {
        (void)snprintf(d.why, sizeof(d.why), "time limit of %.0f s reached",
                       rec->job.attempt_limit_s);
        return eng_stage(e, rec, EV_LIMIT, -1, &d, NULL);
    }
    if (warn_at(e, rec) <= now_s) {
        d.signal = rec->job.warn_signal;
        (void)snprintf(d.why, sizeof(d.why), "time limit in %.0f s, sent SIG%s",
                       rec->start_now_s + rec->job.attempt_limit_s - now_s,
                       sigabbrev_np(rec->job.warn_signal));
        return eng_stage(e, rec, EV_WARN, -1, &d, NULL);
    }
    if (time_80_at(e, rec) <= now_s) {
        (void)snprintf(d.why, sizeof(d.why), "%.0f of %.0f s have passed",
                       now_s - rec->start_now_s, rec->job.attempt_limit_s);
        return eng_stage(e, rec, EV_TIME_80, -1, &d, NULL);
    }
    if (stall_at(e, rec) <= now_s) {
        (void)snprintf(d.why, sizeof(d.why), "no heartbeat for %.0f s",
                       now_s - rec->job.beat_s);
        return eng_stage(e, rec, EV_STALL, -1, &d, NULL);
    }
    if (eng_stall_at(e, rec) <= now_s) {
        eng_stall_why(e, rec, now_s, d.why, sizeof(d.why));
        if (eng_stage(e, rec, EV_STALL, -1, &d, NULL) < 0)
            return -1;
        rec->is_stuck = true;
        return 0;
    }
    if (give_up_at(e, rec) <= now_s) {
        rec->give_up = why_given_up(e, rec);
        rec->release_at_s = rec->end_asked_s = now_s;
    }
    return 0;
}

/* Out of memory: the timer stays due and is tried again. */
void eng_timers(struct engine *e)
{
    double now_s = eng_now(e);
    struct job_record *rec;

    while (eng_later_s(e) <= now_s) {
        rec = e->lists.later.at[0];
        rec->not_before_s = -INFINITY;
        eng_lists_update(e, rec);
        e->wants_plan = true;
    }
    for (rec = eng_next_moving(e, 0); rec;
         rec = eng_next_moving(e, rec->job.id))
        if (eng_timers_next(e, rec) <= now_s && one(e, rec, now_s) < 0)
            e->retry_at_s = now_s + 1;
}
