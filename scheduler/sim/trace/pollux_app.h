/* pollux_app.h - the measurements of one application of Pollux.
 *
 * placements.csv: placement,local_bsz,step_time,sync_time; "124" is three nodes
 * with 1, 2 and 4 replicas. scalability.csv: num_nodes,num_replicas,local_bsz,
 * step_time,sync_time. validation-BATCH.csv, a row per epoch: progress,
 * iteration,metric,grad_sqr,grad_var. */
#ifndef MGPU_SCHEDULER_SIM_TRACE_POLLUX_APP_H
#define MGPU_SCHEDULER_SIM_TRACE_POLLUX_APP_H

#include <stddef.h>
#include <stdint.h>

#include "jobs/base/error.h"
#include "scheduler/sim/trace/lines.h"
#include "scheduler/sim/trace/sim_trace.h"

enum { POLLUX_EPOCHS_MAX = 128, POLLUX_BATCHES_MAX = 16 };

struct pollux_step {
    int32_t nodes, replicas;
    int32_t per_node; /* 0: not the same on each node, or unknown */
    double local, step_s, sync_s;
};

struct pollux_validation {
    int32_t batch, n; /* epochs */
    double progress[POLLUX_EPOCHS_MAX], grad_sqr[POLLUX_EPOCHS_MAX],
        grad_var[POLLUX_EPOCHS_MAX];
};

struct pollux_app {
    char name[SIM_CLASS_CAP];
    struct pollux_step *steps; /* owned; by (nodes, replicas, local) */
    size_t n_steps, cap_steps;
    struct pollux_validation *validations; /* owned; by batch */
    size_t n_validations;
    int32_t epochs; /* to the end */
    double min_local, max_local;
    int32_t first_batch, last_batch;
};

/* Each reads one file to its end. */
int pollux_app_placements(struct pollux_app *a, struct lines *l,
                          struct error *err) MUST_CHECK;
int pollux_app_scalability(struct pollux_app *a, struct lines *l,
                           struct error *err) MUST_CHECK;
int pollux_app_validation(struct pollux_app *a, int32_t batch, struct lines *l,
                          struct error *err) MUST_CHECK;
/* After all files: sorts them and sets the ranges.
 * err  ERR_INVAL they do not suffice */
int pollux_app_finish(struct pollux_app *a, struct error *err) MUST_CHECK;
void pollux_app_clear(struct pollux_app *a);

/* The progress at the end of `epoch` epochs: the least of all batches. */
double pollux_app_progress(const struct pollux_app *a, int32_t epoch);
/* Time of a step of one local batch, and its part of synchronisation. Linear
 * between what was measured; beyond it, as at the nearest measurement. -1: no
 * measurement applies. */
int pollux_app_step(const struct pollux_app *a, int32_t nodes, int32_t per_node,
                    double local, double *ret_step_s, double *ret_sync_s);
/* How much more one step of this batch gains than one of the first batch. */
double pollux_app_gain(const struct pollux_app *a, double batch, int32_t epoch);

#endif
