/* length_guess.c - see length_guess.h.
 *
 * What the job has had counts: its GPU time, which is at least the time that it
 * would have taken on one GPU. A job that has had all of it ends soon.
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

void eng_length_note(struct engine *e, const struct job *job)
{
    if (job->state != JOB_COMPLETED || !(job->used_gpu_s > 0))
        return;
    e->lengths.n[bin_of(job->used_gpu_s)]++;
    e->lengths.total++;
    e->lengths.median_s = median_of(&e->lengths);
}

/* Seconds of one GPU. */
static double whole_s(const struct engine *e, const struct job_record *rec,
                      const struct eng_model *m, double speed)
{
    const struct job *job = &rec->job;

    if (isfinite(job->limit_s) && job->limit_s > 0)
        return job->limit_s * (speed > 0 ? speed : job->gpus_min);
    if (m->program && m->program->n_done > 0 && m->curve.one_per_s > 0)
        return m->program->done_units / m->curve.one_per_s;
    return e->lengths.median_s > 0 ? e->lengths.median_s : POLICY_UNTOLD_S;
}

/* GPU time, also of the attempt that runs. */
static double had_s(const struct engine *e, const struct job *job)
{
    double from_s = isnan(job->run_s) ? job->start_s : job->run_s;
    double now_s = job_state_is_live(job->state) ? eng_wall(e) - from_s : 0;

    return job->used_gpu_s + (now_s > 0 ? now_s * job->gpus : 0);
}

double eng_length_guess_s(const struct engine *e, const struct job_record *rec,
                          const struct eng_model *m, double speed)
{
    double whole = whole_s(e, rec, m, speed), had = had_s(e, &rec->job);

    return fmax(whole - had, fmax(OVERDUE * had, 1));
}
