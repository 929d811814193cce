/* run_figures.c - see run_figures.h. */
#include "scheduler/sim/output/run_figures.h"

#include <math.h>
#include <stdlib.h>

static const double WS_PER_KWH = 3.6e6;

void run_figures_clear(struct run_figures *f)
{
    json_decref(f->groups.users);
    f->groups.users = NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value below which a share of p lies, between the nearest two. */
static double quantile(const double *sorted, size_t n, double p)
{
    double at = p * (double)(n - 1);
    size_t i = (size_t)at;
    double next = i + 1 < n ? sorted[i + 1] : sorted[i];

    return sorted[i] + (at - (double)i) * (next - sorted[i]);
}

/* Sorts the values. */
static struct spread run_spread_of(double *values, size_t n)
{
    double sum = 0;

    if (n == 0)
        return (struct spread){NAN, NAN, NAN, NAN, NAN, NAN};
    qsort(values, n, sizeof(*values), by_value);
    for (size_t i = 0; i < n; i++)
        sum += values[i];
    return (struct spread){sum / (double)n,           quantile(values, n, 0.5),
                           quantile(values, n, 0.9),  quantile(values, n, 0.95),
                           quantile(values, n, 0.99), values[n - 1]};
}

static void of_jobs(const struct sim_conf *conf, const struct sim_output *o,
                    double *v, struct run_figures *r)
{
    size_t n = 0, above = 0, fair = 0;
    double restarts = 0, resizes = 0, gpu_s = 0, worst = NAN;

    for (size_t i = 0; i < o->n; i++) {
        const struct sim_result *job = &o->results[i];
        restarts += job->restarts;
        resizes += job->resizes;
        gpu_s += job->gpu_s;
        if (!job->is_completed)
            continue;
        v[n++] = job->end_s - conf->trace->jobs[i].submit_s;
        if (isnan(job->fairness))
            continue;
        fair++;
        above += job->fairness > 1;
        worst = fmax(worst, job->fairness);
    }
    r->completed = n;
    r->jct_s = run_spread_of(v, n);
    n = 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->results[i].is_completed)
            v[n++] = o->results[i].start_s - conf->trace->jobs[i].submit_s;
    r->wait_s = run_spread_of(v, n);
    n = 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->results[i].is_completed && !isnan(o->results[i].slowdown))
            v[n++] = o->results[i].slowdown;
    r->slowdown = run_spread_of(v, n);
    r->worst_fairness = worst;
    r->share_above_1 = fair > 0 ? (double)above / (double)fair : (double)NAN;
    if (o->n > 0) {
        r->gpu_hours_per_job = gpu_s / 3600 / (double)o->n;
        r->restarts_per_job = restarts / (double)o->n;
        r->resizes_per_job = resizes / (double)o->n;
    }
}

/* Nobody recorded the types, so they have to draw the same. */
static double recorded_kwh(const struct sim_conf *conf, double gpu_s)
{
    const struct sim_cluster *c = conf->cluster;
    double least = INFINITY, most = -INFINITY;

    for (int32_t k = 0; k < c->n_groups; k++) {
        double w = sim_class_value(&conf->watts, c->groups[k].type, NAN);
        least = fmin(least, w);
        most = fmax(most, w);
    }
    return least < most || conf->watts.n == 0 ? (double)NAN
                                              : gpu_s * least / WS_PER_KWH;
}

int run_figures(const struct sim_conf *conf, const struct sim_output *o,
                struct run_figures *ret, struct error *err)
{
    struct run_figures r = {.jobs = o->n};
    double *v =
        calloc((o->n > o->n_decisions ? o->n : o->n_decisions) + 1, sizeof(*v));

    if (!v)
        return error_set(err, ERR_NOMEM, "figures of %zu jobs", o->n);
    of_jobs(conf, o, v, &r);
    for (size_t i = 0; i < o->n_decisions; i++)
        v[i] = 1e3 * o->decision_s[i];
    r.decision_ms = run_spread_of(v, o->n_decisions);
    r.n_decisions = o->n_decisions;
    free(v);
    r.makespan_s = fmax(0, o->last_s - o->first_s);
    r.total_gpu_s = r.makespan_s * conf->cluster->gpus_total;
    r.used_gpu_s = o->used_gpu_s;
    r.restarting_gpu_s = o->restarting_gpu_s;
    r.idle_queued_gpu_s = o->idle_queued_gpu_s;
    r.utilisation =
        r.total_gpu_s > 0 ? r.used_gpu_s / r.total_gpu_s : (double)NAN;
    r.energy_kwh = o->energy_ws / WS_PER_KWH;
    r.steps = o->n_steps;
    r.events = o->n_log;
    r.wall_s = o->wall_s;
    if (run_groups_make(conf, o, &r.groups, err) < 0)
        return -1;
    *ret = r;
    return 0;
}

int run_figures_recorded(const struct sim_conf *conf, struct run_figures *ret,
                         struct error *err)
{
    const struct sim_trace *t = conf->trace;
    const struct spread none = {NAN, NAN, NAN, NAN, NAN, NAN};
    struct run_figures r = {.slowdown = none,
                            .decision_ms = none,
                            .restarting_gpu_s = NAN,
                            .idle_queued_gpu_s = NAN,
                            .restarts_per_job = NAN,
                            .resizes_per_job = NAN,
                            .worst_fairness = NAN,
                            .share_above_1 = NAN,
                            .wall_s = NAN};
    double *jct_s = calloc(2 * t->n + 1, sizeof(*jct_s));
    double *wait_s = jct_s ? jct_s + t->n : NULL;
    double first_s = INFINITY, last_s = -INFINITY;

    if (!jct_s)
        return error_set(err, ERR_NOMEM, "figures of %zu jobs", t->n);
    for (size_t i = 0; i < t->n; i++) {
        const struct sim_job *job = &t->jobs[i];
        if (!job->is_recorded)
            continue;
        jct_s[r.jobs] = job->recorded_end_s - job->submit_s;
        wait_s[r.jobs] = job->recorded_start_s - job->submit_s;
        first_s = fmin(first_s, job->submit_s);
        last_s = fmax(last_s, job->recorded_end_s);
        r.used_gpu_s += job->recorded_gpu_s;
        r.jobs++;
    }
    r.completed = r.jobs;
    r.jct_s = run_spread_of(jct_s, r.jobs);
    r.wait_s = run_spread_of(wait_s, r.jobs);
    free(jct_s);
    r.makespan_s = r.jobs > 0 ? last_s - first_s : 0;
    r.total_gpu_s = r.makespan_s * conf->cluster->gpus_total;
    r.utilisation =
        r.total_gpu_s > 0 ? r.used_gpu_s / r.total_gpu_s : (double)NAN;
    r.energy_kwh = recorded_kwh(conf, r.used_gpu_s);
    r.gpu_hours_per_job =
        r.jobs > 0 ? r.used_gpu_s / 3600 / (double)r.jobs : (double)NAN;
    if (run_groups_make(conf, NULL, &r.groups, err) < 0)
        return -1;
    *ret = r;
    return 0;
}
