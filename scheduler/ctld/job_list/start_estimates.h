/* start_estimates.h - when pending jobs may start. */
#ifndef MGPU_SCHEDULER_CTLD_JOB_LIST_START_ESTIMATES_H
#define MGPU_SCHEDULER_CTLD_JOB_LIST_START_ESTIMATES_H

#include <stdint.h>

#include "jobs/base/error.h"

struct ctld;
struct job;

int start_estimates_init(struct ctld *c, struct error *err) MUST_CHECK;
void start_estimates_clear(struct ctld *c);
/* Makes a forecast, unless there is one of the last plan.
 * err  ERR_NOMEM */
int start_estimates_make(const struct ctld *c, struct error *err) MUST_CHECK;
/* Drops the forecast: what it was made from has changed. */
void start_estimates_drop(struct ctld *c);
/* The start by the plan, or as the cluster's scheduler expects it of a job that
 * is pending there; on the engine's clock, NAN: not known. */
double start_estimates_plan_s(const struct ctld *c, const struct job *j);
/* The start by the plan, else by the last forecast; on the engine's clock, NAN:
 * not known. */
double start_estimates_forecast_s(const struct ctld *c, const struct job *j);
/* The start that the last forecast expects, from the usual run times of jobs;
 * NAN: not known, or no sooner than start_estimates_forecast_s(). */
double start_estimates_expected_s(const struct ctld *c, const struct job *j);
/* The expected start, else the one by time limits: what members and tables
 * show. */
double start_estimates_best_s(const struct ctld *c, const struct job *j);
/* Calls changed() for pending jobs whose start has changed since the last call,
 * at most ENGINE_FORECASTS, and for those that had one then. */
void start_estimates_push(struct ctld *c,
                          void (*changed)(struct ctld *c, uint64_t job));

#endif
