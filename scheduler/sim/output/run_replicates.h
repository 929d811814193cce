/* run_replicates.h - how much the figures of a simulation depend on chance:
 * intervals over replicates, each with other arrivals. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_RUN_REPLICATES_H
#define MGPU_SCHEDULER_SIM_OUTPUT_RUN_REPLICATES_H

#include <jansson.h>

#include "scheduler/sim/output/run_figures.h"

/* The figures of all replicates. */
struct run_replicates {
    size_t n, n_runs; /* n 0: none */
    size_t n_unended; /* in which a job did not end */
    double *values;   /* owned; [n_runs][RUN_FIGURES_MAX][n] */
};

/* own  run_replicates_clear() */
int run_replicates_create(size_t n, size_t n_runs, struct run_replicates *ret,
                          struct error *err) MUST_CHECK;
void run_replicates_clear(struct run_replicates *r); /* a zeroed one is fine */
/* Keeps what is compared of the k-th replicate of a run. */
void run_replicates_add(struct run_replicates *r, size_t k, size_t run,
                        const struct run_figures *f);

/* The table of intervals, cell by cell, likewise for a terminal. */
void run_replicates_each(const struct run_replicates *r,
                         const struct sim_named *runs,
                         void (*each)(void *arg, const struct run_cell *c),
                         void *arg);
int run_replicates_table(const struct run_replicates *r,
                         const struct sim_named *runs, FILE *out,
                         struct error *err) MUST_CHECK;
/* The member "replicates" of mgpu.sim/1. NULL: memory is short */
json_t *run_replicates_json(const struct run_replicates *r);

#endif
