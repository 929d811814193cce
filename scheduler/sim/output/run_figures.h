/* run_figures.h - what a simulation comes to: the figures of mgpu.sim/1. */
#ifndef MGPU_SCHEDULER_SIM_OUTPUT_RUN_FIGURES_H
#define MGPU_SCHEDULER_SIM_OUTPUT_RUN_FIGURES_H

#include <jansson.h>
#include <stdio.h>

#include "scheduler/sim/output/run_groups.h"
#include "scheduler/sim/run/sim_run.h"

/* Of completed jobs; NAN without any. */
struct spread {
    double avg, p50, p90, p95, p99, max;
};

struct run_figures {
    size_t jobs, completed;
    struct spread jct_s, wait_s, slowdown;
    double makespan_s; /* from the first submit to the last end */
    double total_gpu_s, used_gpu_s, restarting_gpu_s, idle_queued_gpu_s;
    double utilisation, gpu_hours_per_job, restarts_per_job, resizes_per_job;
    double worst_fairness, share_above_1;
    double energy_kwh; /* of GPUs in use; NAN: nobody said what they draw */
    struct spread decision_ms;
    size_t n_decisions;
    uint64_t steps, events;
    double wall_s;
    struct run_groups groups;
};

void run_figures_clear(struct run_figures *f); /* a zeroed one is fine */
/* own  run_figures_clear() */
int run_figures(const struct sim_conf *conf, const struct sim_output *o,
                struct run_figures *ret, struct error *err) MUST_CHECK;

/* The figures of what happened in the past, of the jobs that the trace has it
 * of; NAN where nothing is recorded. jobs 0: the trace has none.
 * own  run_figures_clear() */
int run_figures_recorded(const struct sim_conf *conf, struct run_figures *ret,
                         struct error *err) MUST_CHECK;

/* One run of several on the same trace. */
struct sim_named {
    char name[64];      /* the policy */
    char label[64];     /* what tells it apart: its name, or a value of a
                           sweep */
    json_t *parameters; /* its keys */
    struct sim_output out;
    struct run_figures figures;
};

/* The document mgpu.sim/1; NULL: memory is short. own  json_decref()
 * in  recorded  the past's; jobs 0: none
 *     note      what the sizes without a measurement are; "": none */
json_t *run_json(const struct sim_conf *conf,
                 const struct run_figures *recorded,
                 const struct sim_named *runs, size_t n, const char *note);
/* A line for each figure, a column for the past, unless it has no job, and one
 * for each policy. The last column has the last policy relative to the first
 * one, or the only one relative to the past. */
int run_table(const struct run_figures *recorded, const struct sim_named *runs,
              size_t n, FILE *out, struct error *err) MUST_CHECK;

/* A cell of that table. Row 0 has the titles, column 0 the names. */
struct run_cell {
    size_t row, column, last; /* last: column of the row */
    bool is_timing;           /* a time of the machine that simulates */
    const char *text;         /* valid in the call */
};
void run_table_each(const struct run_figures *recorded,
                    const struct sim_named *runs, size_t n,
                    void (*each)(void *arg, const struct run_cell *c),
                    void *arg);

/* Figure f of the table, from 0: its name, NULL past the last; its key in JSON,
 * NULL if it is not for comparing; and all values. */
enum { RUN_FIGURES_MAX = 40, RUN_INTERVAL_CAP = 64 };
const char *run_table_label(size_t f);
const char *run_table_key(size_t f);
size_t run_table_values(const struct run_figures *f,
                        double ret[RUN_FIGURES_MAX]);
/* "5.39 ±0.21 h" */
const char *run_table_interval(char out[RUN_INTERVAL_CAP], size_t f,
                               double mean, double half);

/* name,class,user,submit_s,... with a header; a line for each job. */
int jobs_csv(const struct sim_conf *conf, const struct sim_output *o,
             struct buf *out, struct error *err) MUST_CHECK;
/* t_s,job,event,place */
int events_csv(const struct sim_conf *conf, const struct sim_output *o,
               struct buf *out, struct error *err) MUST_CHECK;
/* Writes a text to a file, compressed if its name ends in ".gz", "-" is
 * standard output.
 * err  ERR_IO and others of the file */
int sim_csv_write(const char *path, const struct buf *text,
                  struct error *err) MUST_CHECK;

#endif
