/* sim_trace.c - see sim_trace.h. */
#include "scheduler/sim/trace/sim_trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs/base/rng.h"

enum { JOBS_MAX = 10 << 20 };

void sim_trace_clear(struct sim_trace *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->jobs[i].spec);
        free(t->jobs[i].sized_spec);
        free(t->jobs[i].vary);
    }
    free(t->jobs);
    buf_clear(&t->findings);
    *t = (struct sim_trace){.n = 0};
}

int sim_trace_add(struct sim_trace *t, const struct sim_job *job,
                  struct error *err)
{
    if (t->n == JOBS_MAX)
        return error_set(err, ERR_LIMIT, "over %d jobs", JOBS_MAX);
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        struct sim_job *p = calloc(cap, sizeof(*p));
        if (!p)
            return error_set(err, ERR_NOMEM, "trace of %zu jobs", cap);
        if (t->n > 0)
            memcpy(p, t->jobs, t->n * sizeof(*p));
        free(t->jobs);
        t->jobs = p;
        t->cap = cap;
    }
    t->jobs[t->n++] = *job;
    return 0;
}

int sim_trace_bad_line(struct sim_trace *t, const struct error *finding,
                       struct error *err)
{
    if (t->left_out.bad++ >= TRACE_FINDINGS_MAX)
        return 0;
    return buf_addf(&t->findings, err, "%s\n", finding->msg);
}

int sim_trace_say_left_out(const struct sim_trace *t, struct buf *out,
                           struct error *err)
{
    const struct {
        size_t n;
        const char *one, *more;
    } kinds[] = {
        {t->left_out.bad, "line that is wrong", "lines that are wrong"},
        {t->left_out.without_gpus, "job without GPUs", "jobs without GPUs"},
        {t->left_out.never_started, "job that never started",
         "jobs that never started"},
        {t->left_out.parts, "line of a step", "lines of steps"},
        {t->left_out.too_large, "job larger than the cluster",
         "jobs larger than the cluster"},
    };

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (kinds[i].n > 0 &&
            buf_addf(out, err, "%s%zu %s", out->len > 0 ? ", " : "", kinds[i].n,
                     kinds[i].n == 1 ? kinds[i].one : kinds[i].more) < 0)
            return -1;
    return 0;
}

struct keyed {
    double submit_s;
    size_t i;
};

static int by_time(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->submit_s < y->submit_s || x->submit_s > y->submit_s)
        return x->submit_s < y->submit_s ? -1 : 1;
    return x->i < y->i ? -1 : x->i > y->i;
}

int sim_trace_sort(struct sim_trace *t, struct error *err)
{
    struct keyed *keys = calloc(t->n + 1, sizeof(*keys));
    struct sim_job *sorted = calloc(t->n + 1, sizeof(*sorted));

    if (!keys || !sorted) {
        free(keys);
        free(sorted);
        return error_set(err, ERR_NOMEM, "sort %zu jobs", t->n);
    }
    for (size_t i = 0; i < t->n; i++)
        keys[i] = (struct keyed){t->jobs[i].submit_s, i};
    qsort(keys, t->n, sizeof(*keys), by_time);
    for (size_t i = 0; i < t->n; i++)
        sorted[i] = t->jobs[keys[i].i];
    free(keys);
    free(t->jobs);
    t->jobs = sorted;
    t->cap = t->n + 1;
    return 0;
}

/* Each gap between two submits gets a weight from an exponential distribution,
 * and all gaps together stay as long: the Bayesian bootstrap of Rubin (1981,
 * Annals of Statistics 9:130) with the gaps as observations. So the load over
 * the whole time is that of the trace, and tasks of one sweep still come at
 * once; the times of day move. */
void sim_trace_draw(const struct sim_job *jobs, size_t n, uint32_t seed,
                    struct sim_job *ret)
{
    struct rng rng;
    double first_s = n > 0 ? jobs[0].submit_s : 0;
    double span_s = n > 0 ? jobs[n - 1].submit_s - first_s : 0;
    double t_s = 0;

    rng_seed(&rng, seed);
    for (size_t i = 0; i < n; i++) {
        double gap_s = i > 0 ? jobs[i].submit_s - jobs[i - 1].submit_s : 0;
        t_s += gap_s * -log1p(-rng_uniform(&rng));
        ret[i].submit_s = t_s;
    }
    /* Jobs that all come at once have no gap to draw. */
    double scale = t_s > 0 ? span_s / t_s : 0;
    for (size_t i = 0; i < n; i++)
        ret[i].submit_s = first_s + scale * ret[i].submit_s;
}
