/* run_lines.h - lines of charts over the runs of a simulation. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_RUN_LINES_H
#define MGPU_SCHEDULER_SIM_OUTPUT_RUN_LINES_H

#include "scheduler/sim/output/run_figures.h"
#include "scheduler/tools/export/chart.h"

enum run_line {
    /* Share of jobs, up to the 99th percentile, by hours from the submit */
    RUN_LINE_JCT,  /* to the end */
    RUN_LINE_WAIT, /* to the start */
    RUN_LINE_QUEUE /* jobs that wait for their first start, by hours since the
                      first submit: the most in each of RUN_LINE_POINTS parts */
};
enum { RUN_LINE_POINTS = 200 };

struct run_lines {
    struct chart_series series[CHART_SERIES_MAX]; /* of the runs, in order, then
                                                     the past's, dashed */
    size_t n;
    double *points; /* owned */
};

/* in   with_past  also what was recorded
 * own  run_lines_clear()
 * err  ERR_NOMEM */
int run_lines_make(const struct sim_conf *conf, const struct sim_named *runs,
                   size_t n, enum run_line what, bool with_past,
                   struct run_lines *ret, struct error *err) MUST_CHECK;
void run_lines_clear(struct run_lines *l);
/* A chart with titles; it borrows the lines. */
struct chart run_lines_chart(const struct run_lines *l, enum run_line what);
/* A file with the distribution of the JCT, a line for each policy. */
int run_lines_cdf(const struct sim_conf *conf, const struct sim_named *runs,
                  size_t n, struct buf *out, struct error *err) MUST_CHECK;

#endif
