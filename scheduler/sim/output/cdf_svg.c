/* cdf_svg.c - the share of jobs that are done within a time after their submit,
 * drawn as a line for each policy. */
#include <math.h>
#include <stdlib.h>

#include "scheduler/sim/output/gantt_svg.h"
#include "scheduler/tools/export/chart.h"

enum { POINTS = 200 };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* POINTS quantiles, in hours. */
static int line(const struct sim_conf *conf, const struct sim_named *run,
                double *x, double *y, struct error *err)
{
    const struct sim_output *o = &run->out;
    double *v = calloc(o->n + 1, sizeof(*v));
    size_t n = 0;

    if (!v)
        return error_set(err, ERR_NOMEM, "distribution");
    for (size_t i = 0; i < o->n; i++)
        if (o->results[i].is_completed)
            v[n++] =
                (o->results[i].end_s - conf->trace->jobs[i].submit_s) / 3600;
    qsort(v, n, sizeof(*v), by_value);
    for (size_t k = 0; k < POINTS; k++) {
        size_t at = n > 0 ? k * (n - 1) / (POINTS - 1) : 0;
        x[k] = n > 0 ? v[at] : 0;
        y[k] = n > 0 ? (double)(at + 1) / (double)n : (double)NAN;
    }
    free(v);
    return 0;
}

int cdf_svg(const struct sim_conf *conf, const struct sim_named *runs, size_t n,
            struct buf *out, struct error *err)
{
    struct chart_series series[CHART_SERIES_MAX];
    double *points = calloc(2 * (size_t)POINTS * (n + 1), sizeof(*points));
    struct chart chart = {.title = "job completion time",
                          .x_title = "hours after the submit",
                          .y_title = "share of jobs",
                          .series = series,
                          .n = n,
                          .from_zero = true};
    int rc = points ? 0 : error_set(err, ERR_NOMEM, "distribution");

    for (size_t i = 0; rc == 0 && i < n; i++) {
        double *x = points + 2 * (size_t)POINTS * i, *y = x + POINTS;
        series[i] = (struct chart_series){
            .name = runs[i].label, .x = x, .y = y, .n = POINTS};
        rc = line(conf, &runs[i], x, y, err);
    }
    if (rc == 0)
        rc = chart_svg(&chart, true, out, err);
    free(points);
    return rc;
}
