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

void eng_moved(struct entry *en, double now_s)
{
    if (!isnan(en->moved_s))
        en->moved_s = now_s;
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
static double step_of(const struct entry *en, const struct engine_beat *beat,
                      double now_s)
{
    int64_t n = beat->iteration - en->pace_iteration;
    if (isfinite(beat->t_iter) && beat->t_iter > 0)
        return beat->t_iter;
    return en->pace_of == en->job.attempt && n >= PACE_MIN
               ? (now_s - en->pace_s) / (double)n
               : (double)NAN;
}

bool eng_note_progress(struct entry *en, const struct engine_beat *beat,
                       double now_s)
{
    bool is_first = isnan(en->moved_s);
    bool is_more = beat->iteration > 0 &&
                   (is_first || beat->iteration > en->job.iteration);
    bool moves = is_first || beat->iteration != en->job.iteration ||
                 beat->work != en->work || beat->saves != en->saves;
    double step_s = is_more ? step_of(en, beat, now_s) : (double)NAN;

    if (!isnan(step_s)) {
        en->steps_s[en->n_steps++ % ENG_STEPS] = (float)step_s;
        en->step_s = median(en->steps_s,
                            en->n_steps < ENG_STEPS ? en->n_steps : ENG_STEPS);
    }
    en->work = beat->work;
    en->saves = beat->saves;
    if (moves)
        en->moved_s = now_s;
    return moves;
}

/* During a checkpoint stall_min counts so many times: an hour where it is 5
 * min, in which 1 TB is written at 300 MB/s. */
static const double SAVE_FACTOR = 12;

static double patience(const struct engine *e, const struct entry *en)
{
    const struct job *job = &en->job;
    const struct engine_conf *conf = e->parts.conf;
    double factor =
        job->stall_factor > 0 ? job->stall_factor : conf->stall_factor;
    double min_s = job->stall_min_s > 0 ? job->stall_min_s : conf->stall_min_s;
    if (en->saves)
        min_s *= SAVE_FACTOR;
    return factor > 0 ? fmax(min_s, factor * en->step_s) : (double)INFINITY;
}

double eng_stuck_at(const struct engine *e, const struct entry *en)
{
    const struct job *job = &en->job;
    bool is_done =
        job->iterations_total > 0 && job->iteration >= job->iterations_total;
    if (job->state != JOB_RUNNING || job->reported || is_done ||
        en->is_suspended || en->give_up || eng_is_ending(en) ||
        isnan(en->moved_s) || isnan(en->step_s))
        return INFINITY;
    return en->moved_s + patience(e, en);
}

void eng_stuck_why(const struct engine *e, const struct entry *en, double now_s,
                   char *ret, size_t cap)
{
    char who[80] = "";
    if (e->parts.lags)
        e->parts.lags(e->parts.lags_arg, &en->job, who, sizeof(who));
    (void)snprintf(ret, cap,
                   "no progress for %.0f s%s after iteration %" PRId64
                   ", step time %.2g s%s",
                   now_s - en->moved_s, en->saves ? " in a checkpoint" : "",
                   en->job.iteration, en->step_s, who);
}
