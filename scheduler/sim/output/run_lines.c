/* run_lines.c - see run_lines.h.
 *
 * A line has RUN_LINE_POINTS points however many jobs there are: quantiles of a
 * distribution, or the largest value of each part of the time. */
#include "scheduler/sim/output/run_lines.h"

#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What happened to job i in a run, or, without one, in the past. */
struct life {
    double submit_s, start_s, end_s;
    bool counts; /* it completed */
};

static struct life life_of(const struct sim_conf *conf,
                           const struct sim_output *o, size_t i)
{
    const struct sim_job *job = &conf->trace->jobs[i];

    if (!o)
        return (struct life){job->submit_s, job->recorded_start_s,
                             job->recorded_end_s, job->is_recorded};
    return (struct life){job->submit_s, o->results[i].start_s,
                         o->results[i].end_s, o->results[i].is_completed};
}

/* Quantiles, in hours, up to the 99th percentile: the longest job may take a
 * hundred times as long. Before them a line at 0 up to the least. `v` has room
 * for all jobs. */
static void distribution(const struct sim_conf *conf,
                         const struct sim_output *o, bool is_wait, double *v,
                         double *x, double *y)
{
    size_t n = 0;

    for (size_t i = 0; i < conf->trace->n; i++) {
        struct life l = life_of(conf, o, i);
        if (l.counts)
            v[n++] = ((is_wait ? l.start_s : l.end_s) - l.submit_s) / 3600;
    }
    qsort(v, n, sizeof(*v), by_value);
    size_t n_shown = (99 * n + 99) / 100;
    for (size_t k = 0; k < 2; k++) {
        x[k] = k == 1 && n > 0 ? v[0] : 0;
        y[k] = n > 0 ? 0 : (double)NAN;
    }
    for (size_t k = 2; k < RUN_LINE_POINTS; k++) {
        size_t at = n > 0 ? (k - 2) * (n_shown - 1) / (RUN_LINE_POINTS - 3) : 0;
        x[k] = n > 0 ? v[at] : 0;
        y[k] = n > 0 ? (double)(at + 1) / (double)n : (double)NAN;
    }
}

/* The longest queue of each part of the time. A job that never started waits to
 * its end, if it has one. `v` has room for twice the jobs. */
static void queue(const struct sim_conf *conf, const struct sim_output *o,
                  double *v, double *x, double *y)
{
    size_t n = 0, n_left = 0, left = 0, came = 0;
    double *leaves = v + conf->trace->n;
    double first_s = INFINITY, last_s = -INFINITY;

    for (size_t i = 0; i < conf->trace->n; i++) {
        struct life l = life_of(conf, o, i);
        if (!o && !l.counts)
            continue;
        double until_s = isfinite(l.start_s) ? l.start_s : l.end_s;
        first_s = fmin(first_s, l.submit_s);
        last_s = fmax(last_s, isfinite(l.end_s) ? l.end_s : l.submit_s);
        if (until_s <= l.submit_s)
            continue; /* it did not wait */
        v[n++] = l.submit_s;
        if (isfinite(until_s))
            leaves[n_left++] = until_s;
    }
    qsort(v, n, sizeof(*v), by_value);
    qsort(leaves, n_left, sizeof(*leaves), by_value);
    double part_s = (last_s - first_s) / RUN_LINE_POINTS;
    for (size_t k = 0; k < RUN_LINE_POINTS; k++) {
        double until_s = first_s + part_s * (double)(k + 1);
        size_t most = came - left;
        for (;;) { /* of one moment those who leave come first */
            bool leaves_next =
                left < n_left && (came == n || leaves[left] <= v[came]);
            if (leaves_next ? leaves[left] > until_s
                            : came == n || v[came] > until_s)
                break;
            if (leaves_next)
                left++;
            else
                came++;
            most = came - left > most ? came - left : most;
        }
        x[k] = part_s * ((double)k + 0.5) / 3600;
        y[k] = (double)most;
    }
    /* The axis is all of the time. */
    x[0] = 0;
    x[RUN_LINE_POINTS - 1] = (last_s - first_s) / 3600;
}

int run_lines_make(const struct sim_conf *conf, const struct sim_named *runs,
                   size_t n, enum run_line what, bool with_past,
                   struct run_lines *ret, struct error *err)
{
    size_t n_lines = n + (with_past ? 1 : 0);
    double *v = calloc(2 * conf->trace->n + 1, sizeof(*v));

    *ret = (struct run_lines){
        .n = n_lines,
        .points = calloc(2 * (size_t)RUN_LINE_POINTS * (n_lines + 1),
                         sizeof(*ret->points))};
    if (!v || !ret->points || n_lines > CHART_SERIES_MAX) {
        free(v);
        run_lines_clear(ret);
        return error_set(err, ERR_NOMEM, "lines of %zu runs", n_lines);
    }
    for (size_t i = 0; i < n_lines; i++) {
        const struct sim_output *o = i < n ? &runs[i].out : NULL;
        double *x = ret->points + 2 * (size_t)RUN_LINE_POINTS * i;
        double *y = x + RUN_LINE_POINTS;
        ret->series[i] =
            (struct chart_series){.name = o ? runs[i].label : "recorded",
                                  .x = x,
                                  .y = y,
                                  .n = RUN_LINE_POINTS,
                                  .dashed = !o};
        if (what == RUN_LINE_QUEUE)
            queue(conf, o, v, x, y);
        else
            distribution(conf, o, what == RUN_LINE_WAIT, v, x, y);
    }
    free(v);
    return 0;
}

void run_lines_clear(struct run_lines *l)
{
    free(l->points);
    *l = (struct run_lines){.n = 0};
}

struct chart run_lines_chart(const struct run_lines *l, enum run_line what)
{
    static const struct chart charts[] = {
        [RUN_LINE_JCT] = {.title = "job completion time",
                          .x_title = "hours after the submit, to p99",
                          .y_title = "share of jobs"},
        [RUN_LINE_WAIT] = {.title = "wait for the first start",
                           .x_title = "hours after the submit, to p99",
                           .y_title = "share of jobs"},
        [RUN_LINE_QUEUE] = {.title = "jobs that wait for their first start",
                            .x_title = "hours after the first submit",
                            .y_title = "jobs"}};
    struct chart c = charts[what];

    c.series = l->series;
    c.n = l->n;
    c.from_zero = true;
    return c;
}

int run_lines_cdf(const struct sim_conf *conf, const struct sim_named *runs,
                  size_t n, struct buf *out, struct error *err)
{
    struct run_lines lines;

    if (run_lines_make(conf, runs, n, RUN_LINE_JCT, false, &lines, err) < 0)
        return -1;
    const struct chart chart = run_lines_chart(&lines, RUN_LINE_JCT);
    int rc = chart_svg(&chart, true, out, err);
    run_lines_clear(&lines);
    return rc;
}
