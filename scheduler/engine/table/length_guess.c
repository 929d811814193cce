/* length_guess.c - see length_guess.h.
 *
 * What the job has had counts: its GPU time, by the speed of a GPU of the size
 * that it has. A job that has had all of it ends soon. A limit is of the time
 * of an attempt, on any size.
 */
#include "scheduler/engine/table/length_guess.h"

#include <math.h>

#include "scheduler/engine/engine_internal.h"

/* An overdue job: so much of what it has had more. */
static const double OVERDUE = 0.25;

static size_t bin_of(double s)
{
    double at = (log2(s) - LENGTH_LEAST) * LENGTH_OCTAVE;

    return at <= 0 ? 0 : at >= LENGTHS_N - 1 ? LENGTHS_N - 1 : (size_t)at;
}

/* The middle of the bin. */
static double median_of(const struct eng_lengths *l)
{
    uint64_t before = 0;
    size_t i = 0;

    while (i < LENGTHS_N - 1 && 2 * (before + l->n[i]) < l->total)
        before += l->n[i++];
    return exp2(((double)i + 0.5) / LENGTH_OCTAVE + LENGTH_LEAST);
}

static void forget_half(struct eng_lengths *l)
{
    l->total = 0;
    for (size_t i = 0; i < LENGTHS_N; i++) {
        l->n[i] /= 2;
        l->total += l->n[i];
    }
}

void eng_length_note(struct engine *e, const struct job *job)
{
    if (job->state != JOB_COMPLETED || !(job->used_gpu_s > 0))
        return;
    struct eng_lengths *l = &e->lengths;
    l->n[bin_of(job->used_gpu_s)]++;
    if (++l->total == LENGTHS_MAX)
        forget_half(l);
    l->median_s = median_of(l);
}

/* Seconds of this attempt, or of the next one, until the time limit ends it. */
static double limit_left_s(const struct engine *e, const struct job_record *rec)
{
    double since_s = job_state_is_live(rec->job.state)
                         ? fmax(0, eng_now(e) - rec->start_now_s)
                         : 0;

    return rec->job.attempt_limit_s - (isfinite(since_s) ? since_s : 0);
}

/* Also of the attempt that runs. */
static double had_gpu_s(const struct engine *e, const struct job *job)
{
    double from_s = isnan(job->run_s) ? job->start_s : job->run_s;
    double now_s = job_state_is_live(job->state) ? eng_wall(e) - from_s : 0;

    return job->used_gpu_s + (now_s > 0 ? now_s * job->gpus : 0);
}

/* What is left of a job that has had so much of the whole. */
static double rest(double whole, double had)
{
    return fmax(whole - had, OVERDUE * had);
}

double eng_length_guess_s(const struct engine *e, const struct job_record *rec,
                          const struct eng_model *m, double speed)
{
    const struct job *job = &rec->job;
    const struct eng_model *p = eng_program_look(e, rec, m);
    double gpus = job_state_is_live(job->state) ? job->gpus : job->gpus_min;
    double fast = speed > 0 ? speed : gpus;
    /* INFINITY: there is no limit */
    double most_s = fmax(limit_left_s(e, rec) * fast, 1);
    double had = had_gpu_s(e, job), per_gpu = gpus > 0 ? fast / gpus : 1;

    if (isfinite(most_s) && !job->limit_is_default)
        return most_s;
    double left_s =
        p && p->n_done > 0 && m->curve.one_per_s > 0
            ? rest(p->done_units / m->curve.one_per_s, had * per_gpu)
        : e->lengths.median_s > 0 ? rest(e->lengths.median_s, had) * per_gpu
                                  : rest(POLICY_UNTOLD_S, had * per_gpu);
    return fmin(fmax(left_s, 1), most_s);
}
