/* sim_page.h - a comparison of policies as one HTML page that loads nothing and
 * is complete without a script. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_SIM_PAGE_H
#define MGPU_SCHEDULER_SIM_OUTPUT_SIM_PAGE_H

#include "scheduler/sim/output/run_replicates.h"

struct sim_page {
    const struct sim_conf *conf;
    const struct run_figures *recorded; /* jobs 0: none */
    const struct sim_named *runs;
    size_t n;
    const struct run_replicates *replicates; /* n 0: none */
    const char *sweep;   /* above the column of names: what the values are of */
    const char *assumed; /* what the speeds of the jobs rest on */
    const char *notes;   /* a line for each; "": none */
    const char *command; /* that made the page */
};

/* The size does not grow with the number of jobs: lines have a fixed number of
 * points, and of attempts and users the largest are shown, which the page says.
 * The same input, options and seed give the same page.
 * err  ERR_NOMEM */
int sim_page(const struct sim_page *p, struct buf *out,
             struct error *err) MUST_CHECK;

#endif
