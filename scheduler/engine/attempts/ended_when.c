/* ended_when.c - when an attempt ended, and what it left of its time limit.
 *
 * For an attempt that ended while the daemon listened, the end time is the time
 * of the note: another clock, or what a user's job wrote over its exit file, is
 * no better. A reported end may be SKEW_S before the last known time; the last
 * known time then counts.
 */
#include <math.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"

static const double LATE_S = 10, SKEW_S = 60;

/* Whoever ended it. */
static double missed_s(const struct engine *e, const struct job_record *rec,
                       const struct ending *end)
{
    const struct job *job = &rec->job;
    double known_s = fmax(fmax(job->intent_s, job->start_s),
                          fmax(fmax(job->claim_s, job->run_s), rec->spoke_s));
    double ended_s = (double)end->ended_ms / 1000;
    double ago_s = eng_wall(e) - fmax(known_s, ended_s);
    bool was_missed = end->ended_ms > 0 && ended_s < e->listens_s &&
                      ended_s > known_s - SKEW_S;

    return was_missed && ago_s >= LATE_S ? ago_s : 0;
}

double eng_ended_ago_s(const struct engine *e, const struct job_record *rec,
                       const struct ending *end)
{
    const struct job *job = &rec->job;
    /* The engine ended it itself, and perhaps not before it had ended
     * anyway. */
    bool is_ours = job->cancel_asked || job->requeue_asked || job->limit_hit;

    return is_ours ? 0 : missed_s(e, rec, end);
}

int64_t eng_limit_left_ms(const struct engine *e, const struct job_record *rec,
                          const struct ending *end)
{
    const struct job *job = &rec->job;
    double now_s = eng_now(e), used_s = now_s - rec->start_now_s;

    if (job->resize.gpus == 0 || isinf(job->attempt_limit_s) ||
        isnan(job->claim_s))
        return -1;
    used_s -= missed_s(e, rec, end);
    if (rec->is_suspended)
        used_s -= now_s - rec->suspended_s;
    if (!(used_s > 0)) /* also if its start is not known */
        used_s = 0;
    return (int64_t)ceil(1000 * fmax(1, job->attempt_limit_s - used_s));
}
