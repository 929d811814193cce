/* preemption.c - tell the policy about victims, and carry out its preemptions.
 *
 * The policy decides (policy/preempt.h). The engine stages one event,
 * EV_PREEMPT, with the job that gets the devices. From then on the attempt ends
 * like one that a person requeues: its ranks are told to stop, they write a
 * checkpoint, they are killed after their grace time, and the job is QUEUED at
 * its old position without counting a retry.
 *
 * Reservations are not stored anywhere else. They follow, also after a restart,
 * from the preempted jobs: each names the job that it was preempted for.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/plan/plan.h"

/* Start of the present attempt. */
double eng_start_of(const struct job_record *rec, double now_s)
{
    return isnan(rec->start_now_s) ? now_s : rec->start_now_s;
}

/* ---- the view -------------------------------------------------------------
 */
/* A reservation ends when its job has had the devices once; if that attempt
 * ends, the job queues like any other. */
static bool is_reserved_by(const struct job_record *to,
                           const struct job_record *rec)
{
    return to && !job_state_is_final(to->job.state) &&
           to->job.priority > rec->job.priority &&
           !(to->job.claim_s >= rec->job.preempt_s);
}

/* Preempted jobs whose reservation has expired leave the list. */
void eng_find_reserved(struct engine *e)
{
    struct job_lists *f = &e->lists;
    double now_s = eng_now(e);
    size_t n = 0;

    if (!e->parts.conf->preempt.is_on)
        return;
    while (f->reserved.n > 0)
        eng_set_reserved(e, f->reserved.at[f->reserved.n - 1], false);
    for (size_t i = 0; i < f->went.n; i++) {
        struct job_record *rec = f->went.at[i];
        rec->places.went = eng_reserved_until(rec) > now_s;
        if (!rec->places.went)
            continue;
        f->went.at[n++] = rec;
        struct job_record *to = eng_find(e, rec->job.preempted_for);
        if (is_reserved_by(to, rec))
            eng_set_reserved(e, to, true);
    }
    f->went.n = n;
}

static bool may_go(const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool is_there = job->state == JOB_STARTING || job->state == JOB_RUNNING ||
                    job->state == JOB_STALLED;
    return is_there && job->is_preemptible && !job->reported &&
           !rec->is_suspended && !eng_is_ending(rec);
}

void eng_view_preempt(const struct engine *e, const struct job_record *rec,
                      double now_s, struct policy_job *io)
{
    const struct policy_preempt *conf = &e->parts.conf->preempt;
    const struct job *job = &rec->job;

    io->is_leaving = eng_is_ending(rec);
    io->leaves_s =
        (isnan(rec->end_asked_s) ? now_s : rec->end_asked_s) + eng_grace(rec);
    if (!conf->is_on)
        return;
    io->may_go = may_go(rec);
    io->leaves_for = job->is_preempted ? job->preempted_for : 0;
    io->grace_s = fmin(job->grace_s, conf->grace_s);
    io->preempted_s = rec->preempted_s;
    io->lost_s = job->saves ? 0 : fmax(0, now_s - io->start_s);
}

/* ---- the decision
 * --------------------------------------------------------------
 */
/* A limit of the user may have been reached since the plan. */
static bool has_reservation(const struct policy_decision *decisions, size_t n,
                            uint64_t id)
{
    for (size_t i = 0; i < n; i++)
        if (decisions[i].act == POLICY_WAIT && decisions[i].id == id)
            return decisions[i].has_reservation;
    return false;
}

int eng_preempt(struct engine *e, const struct policy_decision *decisions,
                size_t n, const struct policy_decision *w, struct error *err)
{
    struct detail d = DETAIL_INIT;
    struct job_record *rec = eng_find(e, w->id);
    const struct job_record *to = eng_find(e, w->for_id);

    if (!has_reservation(decisions, n, w->for_id))
        return 0;
    d.for_job = (int64_t)w->for_id;
    d.grace_ms = (int32_t)(1000 * fmin(rec->job.grace_s,
                                       e->parts.conf->preempt.grace_s));
    (void)snprintf(d.why, sizeof(d.why),
                   "preempted by job %" PRIu64 " of %s, priority %" PRId32
                   " over %" PRId32,
                   to->job.id, to->job.user, to->job.priority,
                   rec->job.priority);
    return eng_stage(e, rec, EV_PREEMPT, -1, &d, err);
}

/* ---- when to look again ---------------------------------------------------
 */
static double later(double t, double at_s, double now_s)
{
    return at_s > now_s ? fmin(t, at_s) : t;
}

/* The highest priority of a pending job; INT32_MIN: none is pending. Jobs with
 * a reservation come first in the view, and may have a lower priority. */
static int32_t most_of(const struct policy_view *v)
{
    int32_t most = INT32_MIN;

    for (size_t i = 0; i < v->n_jobs; i++) {
        const struct policy_job *job = &v->jobs[i];
        if (job->state != JOB_QUEUED)
            continue;
        most = job->priority > most ? job->priority : most;
        if (!job->has_reservation)
            break;
    }
    return most;
}

/* A job reaches its minimum run time, or a victim is overdue: no event tells
 * this, so the engine plans again at that time. */
double eng_preempt_next(const struct engine *e, const struct policy_view *v)
{
    const struct job_lists *f = &e->lists;
    int32_t most = v->preempt.is_on ? most_of(v) : INT32_MIN;
    double t = INFINITY;

    if (most == INT32_MIN)
        return INFINITY;
    for (size_t i = 0; i < f->moving.n; i++) {
        const struct job_record *rec = f->moving.at[i];
        struct policy_job job = {.start_s = eng_start_of(rec, v->now_s)};
        if (!job_state_is_live(rec->job.state))
            continue;
        eng_view_preempt(e, rec, v->now_s, &job);
        if (job.is_leaving)
            t = later(t, job.leaves_s + POLICY_PREEMPT_SLACK_S, v->now_s);
        else if (job.may_go && rec->job.priority < most)
            t = later(t,
                      fmax(job.start_s + v->preempt.min_runtime_s,
                           job.preempted_s + POLICY_PREEMPT_AGAIN_S),
                      v->now_s);
    }
    for (size_t i = 0; i < f->went.n; i++)
        t = later(t, eng_reserved_until(f->went.at[i]), v->now_s);
    return t;
}
