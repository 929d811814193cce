/* runtime_history.c - estimate run times from measured speed and from earlier
 * jobs of the same name; see runtime_history.h.
 */
#include "scheduler/engine/table/runtime_history.h"

#include <math.h>
#include <string.h>

#include "scheduler/engine/engine_internal.h"
#include "scheduler/engine/table/class_models.h"

static uint64_t fnv(uint64_t h, const void *data, size_t n)
{
    for (const unsigned char *p = data; n > 0; n--)
        h = (h ^ *p++) * 1099511628211u;
    return h;
}

static uint64_t kind_of(const struct job *job, int32_t gpus)
{
    uint64_t h = 14695981039346656037u;
    h = fnv(h, &job->uid, sizeof(job->uid));
    h = fnv(h, &gpus, sizeof(gpus));
    h = fnv(h, job->name, strlen(job->name));
    return h ? h : 1;
}

void eng_runtime_note(struct engine *e, const struct job_record *rec)
{
    const struct job *job = &rec->job;
    double took_s = job->end_s - job->start_s;
    uint64_t kind = kind_of(job, job->gpus);
    struct eng_runs *r = &e->runs[kind % RUNS_N];

    if (job->state != JOB_COMPLETED || job->attempt != 1 || !(took_s >= 0))
        return;
    if (r->kind != kind)
        *r = (struct eng_runs){.kind = kind, .last_s = took_s};
    r->fast_s = fmin(r->last_s, took_s);
    r->slow_s = fmax(r->last_s, took_s);
    r->last_s = took_s;
}

double eng_runtime_average_s(const struct job_record *rec)
{
    int64_t n = rec->job.iteration - rec->pace_iteration;
    return rec->pace_of == rec->job.attempt && n > 0
               ? (rec->job.beat_s - rec->pace_s) / (double)n
               : (double)NAN;
}

/* Time to its end, from its progress; NAN: too little is known. */
static double left_s(const struct job_record *rec, double share)
{
    const struct job *j = &rec->job;
    double average = eng_runtime_average_s(rec), fast = j->t_iter, slow = fast;

    if (!job_state_is_live(j->state) || j->iteration <= 0 ||
        j->iterations_total < j->iteration || !(fast > 0))
        return NAN;
    if (average > 0) {
        fast = fmin(fast, average);
        slow = fmax(slow, average);
    }
    return (double)(j->iterations_total - j->iteration) *
           (fast + share * (slow - fast));
}

double eng_runtime_expect_s(const struct engine *e,
                            const struct job_record *rec, int32_t nodes,
                            int32_t gpus, double for_s, double share)
{
    const double stretch = 4; /* an overdue job: for_s / stretch more */
    double left = left_s(rec, share), of_class = NAN;
    uint64_t kind = kind_of(&rec->job, gpus);
    const struct eng_runs *r = &e->runs[kind % RUNS_N];

    if (left >= 0)
        return fmin(for_s + left, rec->job.attempt_limit_s);
    if ((of_class = eng_left_s(e, rec, nodes, gpus)) >= 0)
        return fmin(for_s + of_class, rec->job.attempt_limit_s);
    if (r->kind != kind)
        return NAN;
    double took_s = r->fast_s + share * (r->slow_s - r->fast_s);
    if (took_s < for_s)
        took_s = for_s + for_s / stretch;
    return fmin(took_s, rec->job.attempt_limit_s);
}
