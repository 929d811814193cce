/* stall_detect.c - detect attempts without progress from their heartbeats.
 *
 * A worker sends heartbeats from a thread of its own, so a worker whose ranks
 * hang in a collective, or spin in a loop, is not silent. The engine takes an
 * attempt for stalled when its heartbeats have reported no further iteration
 * and no other work for many times the step time. The step time is the median
 * of the last few iterations, so one slow iteration does not count. No attempt
 * is stalled before the step time is known, or after its last iteration.
 *
 * A checkpoint is one piece of work; the worker reports its begin and its end.
 * Its deadline is longer but not infinite, so a hanging file system is
 * detected, too.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/engine/attempts/attempts.h"
#include "scheduler/engine/engine_internal.h"

/* An average over fewer iterations is not reliable. */
enum { PACE_MIN = 3 };

void eng_stall_moved(struct job_record *rec, double now_s)
{
    if (!isnan(rec->moved_s))
        rec->moved_s = now_s;
}

/* Few values: insertion sort. in n at most ENG_STEPS */
static double median(const float *v, size_t n)
{
    float sorted[ENG_STEPS] = {0};
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        for (; at > 0 && sorted[at - 1] > v[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = v[i];
    }
    return (double)sorted[n / 2];
}

/* The step time as the worker measured it, or else the average since the first
 * heartbeat; NAN: unknown yet. */
static double step_of(const struct job_record *rec,
                      const struct engine_beat *beat, double now_s)
{
    int64_t n = beat->iteration - rec->pace_iteration;
    if (isfinite(beat->t_iter) && beat->t_iter > 0)
        return beat->t_iter;
    return rec->pace_of == rec->job.attempt && n >= PACE_MIN
               ? (now_s - rec->pace_s) / (double)n
               : (double)NAN;
}

bool eng_stall_note_progress(struct job_record *rec,
                             const struct engine_beat *beat, double now_s)
{
    bool is_first = isnan(rec->moved_s);
    bool is_more = beat->iteration > 0 &&
                   (is_first || beat->iteration > rec->job.iteration);
    bool moves = is_first || beat->iteration != rec->job.iteration ||
                 beat->work != rec->work || beat->saves != rec->saves;
    double step_s = is_more ? step_of(rec, beat, now_s) : (double)NAN;

    if (!isnan(step_s)) {
        rec->steps_s[rec->n_steps++ % ENG_STEPS] = (float)step_s;
        rec->step_s = median(
            rec->steps_s, rec->n_steps < ENG_STEPS ? rec->n_steps : ENG_STEPS);
    }
    rec->work = beat->work;
    rec->saves = beat->saves;
    if (moves)
        rec->moved_s = now_s;
    return moves;
}

/* During a checkpoint stall_min counts so many times: an hour where it is 5
 * min, in which 1 TB is written at 300 MB/s. */
static const double SAVE_FACTOR = 12;

static double patience(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    const struct engine_conf *conf = e->parts.conf;
    double factor =
        job->stall_factor > 0 ? job->stall_factor : conf->stall_factor;
    double min_s = job->stall_min_s > 0 ? job->stall_min_s : conf->stall_min_s;
    if (rec->saves)
        min_s *= SAVE_FACTOR;
    return factor > 0 ? fmax(min_s, factor * rec->step_s) : (double)INFINITY;
}

double eng_stall_at(const struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    bool is_done =
        job->iterations_total > 0 && job->iteration >= job->iterations_total;
    if (job->state != JOB_RUNNING || job->reported || is_done ||
        rec->is_suspended || rec->give_up || eng_is_ending(rec) ||
        isnan(rec->moved_s) || isnan(rec->step_s))
        return INFINITY;
    return rec->moved_s + patience(e, rec);
}

void eng_stall_why(const struct engine *e, const struct job_record *rec,
                   double now_s, char *ret, size_t cap)
{
    char who[80] = "";
    if (e->parts.lags)
        e->parts.lags(e->parts.lags_arg, &rec->job, who, sizeof(who));
    (void)snprintf(ret, cap,
                   "no progress for %.0f s%s after iteration %" PRId64
                   ", step time %.2g s%s",
                   now_s - rec->moved_s, rec->saves ? " in a checkpoint" : "",
                   rec->job.iteration, rec->step_s, who);
}
